#include "model/registry.h"

#include <cmath>

#include "gguf/cursor.h"  // shown
#include "model/arch/architectures.h"

namespace pacer::model {

namespace {

#define PACER_ENTRY(name) {#name, arch::read_##name##_config, arch::bind_##name},
constexpr Architecture kArchitectures[] = {PACER_ARCHITECTURES(PACER_ENTRY)};
#undef PACER_ENTRY

}  // namespace

Result<const Architecture*> find_architecture(const gguf::File& file) {
  ASSIGN_OR_RETURN(const std::string_view name, file.require_string("general.architecture"));
  std::string known;
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.name == name) return &architecture;
    if (!known.empty()) known += ", ";
    known += architecture.name;
  }
  return error(Code::kUnsupported, "{}: architecture '{}' is unknown; there is: {}", file.path(),
               gguf::shown(name), known);
}

Result<uint32_t> read_count(const gguf::File& file, const std::string& key, uint64_t max) {
  ASSIGN_OR_RETURN(const uint64_t count, file.require_uint(key));
  if (count < 1 || count > max) {
    return error(Code::kBadFile, "{}: {} is {}, which is not in 1 .. {}", file.path(), key, count,
                 max);
  }
  return static_cast<uint32_t>(count);
}

Result<uint32_t> read_count_or(const gguf::File& file, const std::string& key, uint64_t max,
                               uint32_t absent) {
  ASSIGN_OR_RETURN(const std::optional<uint64_t> count, file.find_uint(key));
  if (!count) return absent;
  return read_count(file, key, max);
}

Result<float> read_positive(const gguf::File& file, const std::string& key,
                            std::optional<float> absent) {
  ASSIGN_OR_RETURN(const std::optional<double> value, file.find_float(key));
  if (!value && absent) return *absent;
  if (!value) return error(Code::kBadFile, "{}: {} is missing", file.path(), key);
  const auto narrow = static_cast<float>(*value);
  if (!std::isfinite(narrow) || narrow <= 0) {
    return error(Code::kBadFile, "{}: {} is {}, which is no finite number above 0", file.path(),
                 key, *value);
  }
  return narrow;
}

}  // namespace pacer::model
