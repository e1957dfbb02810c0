#include "text/utf8.h"

#include <cstdint>

#include "base/check.h"

namespace pacer::text {
namespace {

// A row of table 3-7: how long a character is by its first byte, and which second bytes may follow.
// Later bytes are 80..BF always.
struct Lead {
  size_t size;  // 0: no character begins so
  uint8_t second_min, second_max;
};

Lead lead_of(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};  // continuation bytes, and C0, C1: overlong
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};  // below: overlong
  if (byte == 0xED) return {3, 0x80, 0x9F};  // above: surrogates
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};  // below: overlong
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};  // above: beyond U+10FFFF
  return {0, 0, 0};
}

}  // namespace

Utf8Unit next_utf8(std::string_view bytes) {
  CHECK(!bytes.empty(), "next_utf8 of nothing");
  const Lead lead = lead_of(static_cast<uint8_t>(bytes[0]));
  if (lead.size == 0) return {Utf8Unit::Kind::kIllFormed, 1};
  for (size_t i = 1; i < lead.size; ++i) {
    if (i == bytes.size()) return {Utf8Unit::Kind::kIncomplete, i};
    const auto byte = static_cast<uint8_t>(bytes[i]);
    const uint8_t min = i == 1 ? lead.second_min : 0x80;
    const uint8_t max = i == 1 ? lead.second_max : 0xBF;
    if (byte < min || byte > max) return {Utf8Unit::Kind::kIllFormed, i};
  }
  return {Utf8Unit::Kind::kCharacter, lead.size};
}

bool is_valid_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const Utf8Unit unit = next_utf8(bytes);
    if (unit.kind != Utf8Unit::Kind::kCharacter) return false;
    bytes.remove_prefix(unit.size);
  }
  return true;
}

}  // namespace pacer::text
