// Drives an engine from a thread of its own: steps while there is work, sleeps until the next
// submit.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "engine/engine.h"

namespace pacer::cli {

class EngineThread {
 public:
  explicit EngineThread(engine::Engine& engine);
  ~EngineThread();  // nobody may submit any more
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

  // Finishes the current step and joins. Afterwards the caller is the engine's driving thread.
  // Idempotent.
  void stop();

 private:
  void loop();
  void wait_for_work();

  engine::Engine& engine_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace pacer::cli
