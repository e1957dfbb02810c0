#include "cli/engine_thread.h"

#include "sys/thread_pool.h"

namespace pacer::cli {

EngineThread::EngineThread(engine::Engine& engine) : engine_(engine) {
  engine_.set_wakeup([this] {
    const std::lock_guard lock(mutex_);
    woken_ = true;
    changed_.notify_one();
  });
  thread_ = std::thread([this] { loop(); });
}

EngineThread::~EngineThread() {
  stop();
  engine_.set_wakeup(nullptr);
}

void EngineThread::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void EngineThread::loop() {
  sys::set_denormals_to_zero();
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      woken_ = false;  // before the step: what arrives from here on wakes us again
    }
    if (!engine_.step()) wait_for_work();
  }
}

void EngineThread::wait_for_work() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return woken_ || stopping_; });
}

}  // namespace pacer::cli
