// Split models: what a shard says about itself, and what the others are called. Internal to this
// folder: see file.h.
//
// A model may be cut into files NAME-00001-of-00003.gguf ... NAME-00003-of-00003.gguf. Each is a
// whole GGUF file with a part of the tensors; the first also has the model's metadata. Three keys
// tie them together: split.no (from 0), split.count, split.tensors.count (of all shards together).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gguf/parse.h"

namespace pacer::gguf {

constexpr uint64_t kShardsMax = 4096;  // real models: under 100; each is an open mapping

struct SplitInfo {
  uint64_t number = 0;  // from 0: one less than in the name
  uint64_t count = 1;   // 1: not split
  std::optional<uint64_t> tensors_total;
};

// From a shard's metadata. A file without split.count is not split.
Result<SplitInfo> read_split(const std::map<std::string_view, Value>& metadata);

// The path of shard `number` (from 0), given the path of shard `own` of `count`; nothing when that
// does not end as the name of such a shard must.
std::optional<std::string> shard_path(const std::string& path, uint64_t own, uint64_t count,
                                      uint64_t number);

}  // namespace pacer::gguf
