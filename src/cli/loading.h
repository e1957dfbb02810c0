// A model that is loaded on a thread of its own, while somebody watches for signals.
//
// Loading may take minutes (a download, gigabytes to pack). Nothing in it is worth saving, so it is
// not interrupted: whoever has to end before it is done ends the process (end_process()).
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <thread>

#include "base/result.h"
#include "cli/loaded_model.h"

namespace pacer::cli {

class Loading {
 public:
  explicit Loading(ModelOptions options)
      : thread_([this, options = std::move(options)] {
          result_.emplace(load_model(options));
          done_.store(true);
        }) {}
  ~Loading() {
    if (thread_.joinable()) thread_.join();
  }
  Loading(const Loading&) = delete;
  Loading& operator=(const Loading&) = delete;

  bool done() const { return done_.load(); }
  // Once done().
  Result<std::unique_ptr<LoadedModel>> take() { return *std::move(result_); }

 private:
  std::atomic<bool> done_{false};
  std::optional<Result<std::unique_ptr<LoadedModel>>> result_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace pacer::cli
