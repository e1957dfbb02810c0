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

// How many bytes the pattern of bits at the beginning spells one number with, whatever that number
// is; 0: no such pattern.
size_t spelled_size(std::string_view bytes) {
  const auto first = static_cast<uint8_t>(bytes[0]);
  const size_t size = first < 0x80 ? 1 : first < 0xC0 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (size == 0 || first >= 0xF8 || size > bytes.size()) return 0;
  for (size_t i = 1; i < size; ++i) {
    if ((static_cast<uint8_t>(bytes[i]) & 0xC0) != 0x80) return 0;
  }
  return size;
}

constexpr char32_t kReplacement = 0xFFFD;
constexpr char32_t kPrivateUse = 0xE000;
constexpr char32_t kCodePointMax = 0x10FFFF;

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

char32_t code_point_of(std::string_view character) {
  constexpr uint8_t kLeadBits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
  CHECK(!character.empty() && character.size() <= 4, "a character of {} bytes", character.size());
  char32_t point = static_cast<uint8_t>(character[0]) & kLeadBits[character.size()];
  for (size_t i = 1; i < character.size(); ++i) {
    point = point << 6 | (static_cast<uint8_t>(character[i]) & 0x3F);
  }
  return point;
}

void append_utf8(std::string& out, char32_t code_point) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  const auto put_rest = [&](int bits) {
    for (; bits >= 0; bits -= 6) put(0x80 | ((code_point >> bits) & 0x3F));
  };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put_rest(0);
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put_rest(6);
  } else {
    put(0xF0 | code_point >> 18);
    put_rest(12);
  }
}

LenientText read_leniently(std::string_view bytes) {
  LenientText text;
  while (!bytes.empty()) {
    const size_t spelled = spelled_size(bytes);
    char32_t point = spelled > 0 ? code_point_of(bytes.substr(0, spelled)) : kReplacement;
    const bool is_character = spelled > 0 && point <= kCodePointMax;
    if (!is_character) point = kReplacement;
    append_utf8(text.bytes, point);
    append_utf8(text.shape, point >= 0xD800 && point < 0xE000 ? kPrivateUse : point);
    bytes.remove_prefix(is_character ? spelled : 1);
  }
  return text;
}

}  // namespace pacer::text
