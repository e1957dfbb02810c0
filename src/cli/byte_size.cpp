#include "cli/byte_size.h"

#include <charconv>
#include <cmath>
#include <utility>

namespace pacer::cli {

namespace {

constexpr std::pair<std::string_view, double> kUnits[] = {
    {"", 1},         {"b", 1},    {"kib", 0x1p10}, {"mib", 0x1p20}, {"gib", 0x1p30},
    {"tib", 0x1p40}, {"kb", 1e3}, {"mb", 1e6},     {"gb", 1e9},     {"tb", 1e12},
};

}  // namespace

Result<uint64_t> parse_byte_size(std::string_view text) {
  double number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = failed == std::errc{} && std::isfinite(number) && number >= 0;
  std::string unit;
  for (const char* c = end; c != text.data() + text.size(); ++c) {
    if (*c != ' ') unit += static_cast<char>(*c >= 'A' && *c <= 'Z' ? *c - 'A' + 'a' : *c);
  }
  for (const auto& [name, factor] : kUnits) {
    if (!is_number || name != unit) continue;
    if (number * factor >= 0x1p63) break;
    return static_cast<uint64_t>(number * factor);
  }
  return error(Code::kInvalidArgument, "'{}' is not a size; examples: 2GiB, 512MiB, 1.5GB, 1048576",
               text);
}

}  // namespace pacer::cli
