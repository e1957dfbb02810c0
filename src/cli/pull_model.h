// From a source to a model on disk: what `pacer pull` and -m with a source do.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace pacer::cli {

struct PullOptions {
  uint32_t retries = 5;
  uint32_t stall_timeout_s = 30;
};

struct PulledModel {
  std::string path;  // of a split model the first shard
  bool was_there = false;
};

// Fetches what is not there yet; says on stderr what it does. An interrupted pull is an Error, and
// PullProgress::interrupted() is true.
Result<PulledModel> pull_model(std::string_view name, const PullOptions& options = {});

}  // namespace pacer::cli
