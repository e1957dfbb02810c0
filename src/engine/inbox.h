// What other threads ask of the engine, in order: the only door between I/O threads and the engine
// thread.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <variant>
#include <vector>

#include "engine/generate_request.h"
#include "engine/output_event.h"

namespace pacer::engine {

struct Submit {
  RequestId id;
  GenerateRequest request;
  std::shared_ptr<OutputSink> sink;
};
struct Cancel {
  RequestId id;
};
using Command = std::variant<Submit, Cancel>;

class Inbox {
 public:
  // Called after every push, on the pushing thread: whoever drives the engine sets it before there
  // are other threads.
  void set_wakeup(std::function<void()> wakeup) { wakeup_ = std::move(wakeup); }

  void push(Command command) {
    {
      const std::lock_guard lock(mutex_);
      commands_.push_back(std::move(command));
    }
    if (wakeup_) wakeup_();
  }

  // All commands since the last drain, oldest first.
  std::vector<Command> drain() {
    const std::lock_guard lock(mutex_);
    return std::exchange(commands_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<Command> commands_;  // bounded: Engine::submit admits a bounded number, each
                                   // cancelled at most a few times
  std::function<void()> wakeup_;
};

}  // namespace pacer::engine
