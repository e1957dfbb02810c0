// For tests only: a tokenizer without a model. Token b is the byte b; the control tokens come
// after.
#pragma once

#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "text/tokenizer.h"

namespace pacer::text {

inline constexpr TokenId kTestImStart = 256;  // <|im_start|>
inline constexpr TokenId kTestImEnd = 257;    // <|im_end|>: end of generation

// UTF-8 of the character that stands for a byte in GPT-2's vocabulary files.
inline std::string test_byte_symbol(uint32_t byte) {
  const auto printable = [](uint32_t b) {
    return (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || (b >= 0xae && b <= 0xff);
  };
  uint32_t code = byte;
  if (!printable(byte)) {
    code = 0x100;
    for (uint32_t b = 0; b < byte; ++b) code += !printable(b);
  }
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}

inline Vocabulary test_vocabulary() {
  Vocabulary vocabulary;
  for (uint32_t byte = 0; byte < 256; ++byte) vocabulary.tokens.push_back(test_byte_symbol(byte));
  vocabulary.kinds.assign(256, TokenKind::kNormal);
  for (const char* control : {"<|im_start|>", "<|im_end|>"}) {
    vocabulary.tokens.emplace_back(control);
    vocabulary.kinds.push_back(TokenKind::kControl);
  }
  vocabulary.eos = kTestImEnd;
  return vocabulary;
}

inline std::unique_ptr<Tokenizer> test_tokenizer() {
  auto tokenizer = Tokenizer::from_vocabulary(test_vocabulary());
  CHECK(tokenizer.ok(), "{}", tokenizer.error().message);
  return *std::move(tokenizer);
}

// Characters of one to four bytes, spaces and marks among them, and what stands for a space in some
// vocabularies not.
template <class Rng>
std::string random_text(Rng& rng, size_t characters_max) {
  static const std::string parts[] = {
      "a",          "b",      " ",  "  ",      "\n", std::string(1, '\0'),
      "7",          ".",      "é",  "n\u0303", "語", "\u00a0",
      "\U0001F600", "\u200d", "한", "\t"};
  std::string text;
  for (size_t n = rng() % (characters_max + 1); n > 0; --n) text += parts[rng() % std::size(parts)];
  return text;
}

}  // namespace pacer::text
