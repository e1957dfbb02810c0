// File: the mapped bytes of all shards, what parse() found in them, and typed access by key.
#include "gguf/file.h"

#include <utility>

#include "gguf/cursor.h"
#include "gguf/parse.h"
#include "gguf/shards.h"

namespace pacer::gguf {
namespace {

const Value* find_value(const std::map<std::string_view, Value>& metadata, std::string_view key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? nullptr : &found->second;
}

template <class T>
const T* find_as(const std::map<std::string_view, Value>& metadata, std::string_view key) {
  const Value* value = find_value(metadata, key);
  return value == nullptr ? nullptr : std::get_if<T>(value);
}

Error wrong_kind(const std::string& path, std::string_view key, const Value& value,
                 std::string_view wanted) {
  return error(Code::kBadFile, "{}: metadata key '{}' is {}; it must be {}", path, shown(key),
               kind_name(value), wanted);
}

Error missing(const std::string& path, std::string_view key) {
  return error(Code::kBadFile, "{}: metadata key '{}' is missing", path, shown(key));
}

template <class T>
Result<std::optional<T>> find_exactly(const File& file, std::string_view key,
                                      std::string_view wanted) {
  const Value* value = find_value(file.metadata(), key);
  if (value == nullptr) return std::optional<T>();
  if (const T* typed = std::get_if<T>(value)) return std::optional<T>(*typed);
  return wrong_kind(file.path(), key, *value, wanted);
}

// One file of a model, parsed but not yet tied to the others.
struct OpenedShard {
  sys::MappedFile mapped;
  Parsed parsed;  // points into `mapped`
  SplitInfo split;
};

Result<OpenedShard> open_shard(const std::string& path) {
  ASSIGN_OR_RETURN(sys::MappedFile mapped, sys::MappedFile::open(path));
  auto parsed = parse(mapped.bytes());
  if (!parsed) return error(parsed.error().code, "{}: {}", path, parsed.error().message);
  const auto split = read_split(parsed->metadata);
  if (!split) return error(split.error().code, "{}: {}", path, split.error().message);
  return OpenedShard{std::move(mapped), *std::move(parsed), *split};
}

Error not_the_first(const std::string& path, const SplitInfo& split) {
  const auto first = shard_path(path, split.number, split.count, 0);
  return error(Code::kBadFile, "{}: this is shard {} of {}; give the first one{}", path,
               split.number + 1, split.count, first ? fmt::format(", '{}'", *first) : "");
}

// Later shards repeat nothing of the model but, in some writers, its name and architecture.
Status check_same_model(const std::string& path, const Parsed& parsed, const SplitInfo& own,
                        const SplitInfo& first, uint64_t number,
                        const std::map<std::string_view, Value>& metadata) {
  if (own.count != first.count || own.number != number) {
    const bool whole = own.count == 1;
    return error(Code::kBadFile, "{}: this is {}, where shard {} of {} is expected", path,
                 whole ? "a whole model" : fmt::format("shard {} of {}", own.number + 1, own.count),
                 number + 1, first.count);
  }
  if (own.tensors_total != first.tensors_total) {
    return error(Code::kBadFile,
                 "{}: split.tensors.count is {}, in the first shard it is {}; are they of one "
                 "model?",
                 path, own.tensors_total ? fmt::to_string(*own.tensors_total) : "missing",
                 first.tensors_total ? fmt::to_string(*first.tensors_total) : "missing");
  }
  for (const std::string_view key : {"general.architecture", "general.name"}) {
    const Value* mine = find_value(parsed.metadata, key);
    const Value* theirs = find_value(metadata, key);
    if (mine != nullptr && (theirs == nullptr || *mine != *theirs)) {
      return error(Code::kBadFile, "{}: '{}' differs from that of the first shard", path, key);
    }
  }
  return Ok{};
}

}  // namespace

Result<File> File::open(const std::string& path) {
  File file;
  file.path_ = path;
  ASSIGN_OR_RETURN(OpenedShard first, open_shard(path));
  const SplitInfo split = first.split;
  if (split.number != 0) return not_the_first(path, split);
  file.shards_.push_back(std::move(first.mapped));
  file.version_ = first.parsed.version;
  file.metadata_ = std::move(first.parsed.metadata);
  TRY(file.add_tensors(path, std::move(first.parsed.tensors)));
  if (split.count > 1) TRY(file.open_shards(split));
  return file;
}

// Shards 1 and up, each checked to be a part of the same model as the first.
Status File::open_shards(const SplitInfo& split) {
  for (uint64_t i = 1; i < split.count; ++i) {
    const auto path = shard_path(path_, 0, split.count, i);
    if (!path) {
      return error(Code::kBadFile,
                   "{}: the first of {} shards; its name must end in '-00001-of-{:05}.gguf', so "
                   "that the others are found beside it",
                   path_, split.count, split.count);
    }
    auto opened = open_shard(*path);
    if (!opened && opened.error().code == Code::kNotFound) {
      return error(Code::kNotFound, "{}: shard {} of {} is missing: there is no '{}'", path_, i + 1,
                   split.count, *path);
    }
    if (!opened) return opened.error();
    TRY(check_same_model(*path, opened->parsed, opened->split, split, i, metadata_));
    shards_.push_back(std::move(opened->mapped));
    TRY(add_tensors(*path, std::move(opened->parsed.tensors)));
  }
  if (split.tensors_total && *split.tensors_total != tensors_.size()) {
    return error(Code::kBadFile,
                 "{}: split.tensors.count is {}, but the {} shards have {} tensors together; are "
                 "they of one model?",
                 path_, *split.tensors_total, split.count, tensors_.size());
  }
  return Ok{};
}

Status File::add_tensors(const std::string& path, std::vector<TensorInfo> tensors) {
  for (TensorInfo& tensor : tensors) {
    // Within one file parse() has seen to it already.
    if (!tensor_index_.emplace(tensor.name, tensors_.size()).second) {
      return error(Code::kBadFile, "{}: tensor '{}' is in an earlier shard of {} too", path,
                   shown(tensor.name), path_);
    }
    tensors_.push_back(std::move(tensor));
  }
  return Ok{};
}

uint64_t File::size_bytes() const {
  uint64_t size = 0;
  for (const sys::MappedFile& shard : shards_) size += shard.bytes().size();
  return size;
}

void File::release_pages() const {
  for (const sys::MappedFile& shard : shards_) shard.release();
}

const TensorInfo* File::find_tensor(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

Result<std::optional<uint64_t>> File::find_uint(std::string_view key) const {
  const Value* value = find_value(metadata_, key);
  if (value == nullptr) return std::optional<uint64_t>();
  if (const auto* unsigned_value = std::get_if<uint64_t>(value)) {
    return std::optional<uint64_t>(*unsigned_value);
  }
  if (const auto* signed_value = std::get_if<int64_t>(value)) {  // writers that know only INT32
    if (*signed_value >= 0) return std::optional<uint64_t>(static_cast<uint64_t>(*signed_value));
    return error(Code::kBadFile, "{}: metadata key '{}' is {}; it must not be negative", path_,
                 shown(key), *signed_value);
  }
  return wrong_kind(path_, key, *value, "an unsigned integer");
}

Result<std::optional<double>> File::find_float(std::string_view key) const {
  return find_exactly<double>(*this, key, "a float");
}

Result<std::optional<bool>> File::find_bool(std::string_view key) const {
  return find_exactly<bool>(*this, key, "a bool");
}

Result<std::optional<std::string_view>> File::find_string(std::string_view key) const {
  return find_exactly<std::string_view>(*this, key, "a string");
}

Result<uint64_t> File::require_uint(std::string_view key) const {
  ASSIGN_OR_RETURN(const auto value, find_uint(key));
  if (!value) return missing(path_, key);
  return *value;
}

Result<double> File::require_float(std::string_view key) const {
  ASSIGN_OR_RETURN(const auto value, find_float(key));
  if (!value) return missing(path_, key);
  return *value;
}

Result<std::string_view> File::require_string(std::string_view key) const {
  ASSIGN_OR_RETURN(const auto value, find_string(key));
  if (!value) return missing(path_, key);
  return *value;
}

const std::vector<std::string_view>* File::find_strings(std::string_view key) const {
  return find_as<std::vector<std::string_view>>(metadata_, key);
}

const std::vector<uint64_t>* File::find_uints(std::string_view key) const {
  return find_as<std::vector<uint64_t>>(metadata_, key);
}

const std::vector<double>* File::find_floats(std::string_view key) const {
  return find_as<std::vector<double>>(metadata_, key);
}

}  // namespace pacer::gguf
