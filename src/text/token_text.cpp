#include "text/token_text.h"

namespace pacer::text {
namespace {

std::optional<uint8_t> hex_digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<uint8_t>(c - '0');
  if (c >= 'A' && c <= 'F') return static_cast<uint8_t>(c - 'A' + 10);
  if (c >= 'a' && c <= 'f') return static_cast<uint8_t>(c - 'a' + 10);
  return std::nullopt;
}

}  // namespace

std::string with_spaces(std::string_view stored) {
  std::string out;
  out.reserve(stored.size());
  while (!stored.empty()) {
    const bool is_space = stored.starts_with(kStoredSpace);
    out.push_back(is_space ? ' ' : stored[0]);
    stored.remove_prefix(is_space ? kStoredSpace.size() : 1);
  }
  return out;
}

std::optional<uint8_t> byte_of_token_text(std::string_view stored) {
  if (stored.size() != 6 || !stored.starts_with("<0x") || stored[5] != '>') return std::nullopt;
  const auto high = hex_digit(stored[3]);
  const auto low = hex_digit(stored[4]);
  if (!high || !low) return std::nullopt;
  return static_cast<uint8_t>(*high << 4 | *low);
}

}  // namespace pacer::text
