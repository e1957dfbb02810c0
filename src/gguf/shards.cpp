#include "gguf/shards.h"

namespace pacer::gguf {
namespace {

Result<std::optional<uint64_t>> find_count(const std::map<std::string_view, Value>& metadata,
                                           std::string_view key) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return std::optional<uint64_t>();
  if (const auto* value = std::get_if<uint64_t>(&found->second)) {
    return std::optional<uint64_t>(*value);
  }
  if (const auto* value = std::get_if<int64_t>(&found->second); value != nullptr && *value >= 0) {
    return std::optional<uint64_t>(static_cast<uint64_t>(*value));
  }
  return error(Code::kBadFile, "metadata key '{}' must be an integer that is not negative", key);
}

std::string ending(uint64_t number, uint64_t count) {
  return fmt::format("-{:05}-of-{:05}.gguf", number + 1, count);
}

}  // namespace

Result<SplitInfo> read_split(const std::map<std::string_view, Value>& metadata) {
  SplitInfo info;
  ASSIGN_OR_RETURN(const auto count, find_count(metadata, "split.count"));
  ASSIGN_OR_RETURN(const auto number, find_count(metadata, "split.no"));
  ASSIGN_OR_RETURN(info.tensors_total, find_count(metadata, "split.tensors.count"));
  if (!count || *count <= 1) return SplitInfo{};
  if (*count > kShardsMax) {
    return error(Code::kBadFile, "split.count is {}; the limit is {}", *count, kShardsMax);
  }
  if (!number) return error(Code::kBadFile, "split.count is {}, but split.no is missing", *count);
  if (*number >= *count) {
    return error(Code::kBadFile, "split.no is {}; it must be below split.count, {}", *number,
                 *count);
  }
  info.number = *number;
  info.count = *count;
  return info;
}

std::optional<std::string> shard_path(const std::string& path, uint64_t own, uint64_t count,
                                      uint64_t number) {
  const std::string own_ending = ending(own, count);
  if (!path.ends_with(own_ending)) return std::nullopt;
  return path.substr(0, path.size() - own_ending.size()) + ending(number, count);
}

}  // namespace pacer::gguf
