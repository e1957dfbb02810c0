// The printable alphabet in which byte-level tokenizers store bytes: 188 bytes as the Latin-1
// character of the same number, the other 68 as U+0100 onwards (a space is "Ġ", U+0120).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pacer::text {

std::string_view alphabet_character(uint8_t byte);  // UTF-8, one or two bytes

// The bytes that a stored token stands for. A text with a character outside of the alphabet stands
// for itself, as in Hugging Face's decoder.
std::string bytes_of_token_text(std::string_view token_text);

}  // namespace pacer::text
