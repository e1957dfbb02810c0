// How vocabularies other than byte-level ones store a token's text: U+2581 for a space, "<0x0A>"
// for a byte.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pacer::text {

inline constexpr std::string_view kStoredSpace = "\u2581";

std::string with_spaces(std::string_view stored);  // U+2581 as a space

// "<0x0A>" is 10; anything else is no byte.
std::optional<uint8_t> byte_of_token_text(std::string_view stored);

}  // namespace pacer::text
