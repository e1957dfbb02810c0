#include "model/registry.h"

#include "model/arch/architectures.h"

namespace pacer::model {

namespace {

constexpr Architecture kArchitectures[] = {
    {"llama", arch::read_llama_config, arch::bind_llama},
};

}  // namespace

std::span<const Architecture> architectures() {
  return kArchitectures;
}

Result<const Architecture*> find_architecture(const gguf::File& file) {
  ASSIGN_OR_RETURN(const std::string_view name, file.require_string("general.architecture"));
  std::string known;
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.name == name) return &architecture;
    if (!known.empty()) known += ", ";
    known += architecture.name;
  }
  return error(Code::kUnsupported, "{}: architecture '{}' is unknown; there is: {}", file.path(),
               name, known);
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

}  // namespace pacer::model
