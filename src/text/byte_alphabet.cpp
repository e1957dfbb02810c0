#include "text/byte_alphabet.h"

#include <array>

#include "text/utf8.h"

namespace pacer::text {
namespace {

// The bytes that GPT-2's encoder shows as themselves: those printable in Latin-1, without the soft
// hyphen.
constexpr bool shown_as_itself(unsigned byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
}

constexpr unsigned kLastCodePoint = 0x100 + 67;

struct Alphabet {
  std::array<std::array<char, 2>, 256> text{};
  std::array<uint8_t, 256> text_size{};
  std::array<int, kLastCodePoint + 1> byte_of{};  // by code point; -1: not in the alphabet
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  alphabet.byte_of.fill(-1);
  unsigned next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const unsigned code_point = shown_as_itself(byte) ? byte : next++;
    alphabet.byte_of[code_point] = static_cast<int>(byte);
    if (code_point < 0x80) {
      alphabet.text[byte] = {static_cast<char>(code_point), 0};
      alphabet.text_size[byte] = 1;
    } else {
      alphabet.text[byte] = {static_cast<char>(0xC0 | (code_point >> 6)),
                             static_cast<char>(0x80 | (code_point & 0x3F))};
      alphabet.text_size[byte] = 2;
    }
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

// -1: not one character of the alphabet.
int byte_of_character(std::string_view character) {
  unsigned code_point = static_cast<uint8_t>(character[0]);
  if (character.size() == 2) {
    code_point = (code_point & 0x1F) << 6 | (static_cast<uint8_t>(character[1]) & 0x3F);
  }
  if (character.size() > 2 || code_point > kLastCodePoint) return -1;
  return kAlphabet.byte_of[code_point];
}

}  // namespace

std::string_view alphabet_character(uint8_t byte) {
  return {kAlphabet.text[byte].data(), kAlphabet.text_size[byte]};
}

std::string bytes_of_token_text(std::string_view token_text) {
  std::string bytes;
  for (std::string_view rest = token_text; !rest.empty();) {
    const Utf8Unit unit = next_utf8(rest);
    const int byte =
        unit.kind == Utf8Unit::Kind::kCharacter ? byte_of_character(rest.substr(0, unit.size)) : -1;
    if (byte < 0) return std::string(token_text);
    bytes.push_back(static_cast<char>(byte));
    rest.remove_prefix(unit.size);
  }
  return bytes;
}

}  // namespace pacer::text
