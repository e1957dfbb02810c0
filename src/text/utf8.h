// One step through bytes that may or may not be UTF-8: by well-formed characters and ill-formed
// maximal subparts (Unicode 15, table 3-7 and section 3.9). Shared by the pre-tokenizer and the
// stream decoder.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace pacer::text {

struct Utf8Unit {
  enum class Kind { kCharacter, kIllFormed, kIncomplete };
  Kind kind;
  size_t size;  // bytes, at least 1
};

// What `bytes` (not empty) begins with. kIncomplete: all of it is the beginning of a character.
Utf8Unit next_utf8(std::string_view bytes);

bool is_valid_utf8(std::string_view bytes);

// Ill-formed text as llama.cpp's byte-level tokenizers read it: overlong forms are the character
// that they spell, surrogates stay, and each other byte that begins no character is U+FFFD.
struct LenientText {
  std::string bytes;
  std::string shape;  // as `bytes`, valid: a surrogate is a private-use character of its size
};
LenientText read_leniently(std::string_view bytes);

// The code point of a well-formed character, and back.
char32_t code_point_of(std::string_view character);
void append_utf8(std::string& out, char32_t code_point);

}  // namespace pacer::text
