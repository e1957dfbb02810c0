// File: the mapped bytes, what parse() found in them, and typed access by key.
#include "gguf/file.h"

#include <utility>

#include "gguf/cursor.h"
#include "gguf/parse.h"

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

}  // namespace

Result<File> File::open(const std::string& path) {
  File file;
  file.path_ = path;
  ASSIGN_OR_RETURN(file.mapped_, sys::MappedFile::open(path));

  auto parsed = parse(file.mapped_.bytes());
  if (!parsed) return error(parsed.error().code, "{}: {}", path, parsed.error().message);
  file.version_ = parsed->version;
  file.metadata_ = std::move(parsed->metadata);
  file.tensors_ = std::move(parsed->tensors);
  for (size_t i = 0; i < file.tensors_.size(); ++i) {
    file.tensor_index_.emplace(file.tensors_[i].name, i);
  }
  return file;
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
