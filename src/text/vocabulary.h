// What a tokenizer is made of, as read from a GGUF file; and what is wrong with one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/token.h"
#include "gguf/file.h"

namespace pacer::text {

enum class TokenKind : uint8_t { kNormal, kUnknown, kControl, kUserDefined, kUnused, kByte };

inline bool is_special_kind(TokenKind kind) {
  return kind == TokenKind::kControl || kind == TokenKind::kUnknown;
}
// Sought in a text as it is written, before what lies between is encoded.
inline bool is_cut_out(TokenKind kind) {
  return is_special_kind(kind) || kind == TokenKind::kUserDefined;
}

// Read from a GGUF, or written by hand in tests.
struct Vocabulary {
  std::string model = "gpt2";       // tokenizer.ggml.model: gpt2, llama or bert
  std::string pre = "gpt-2";        // gpt2: tokenizer.ggml.pre
  std::vector<std::string> tokens;  // as stored: gpt2 in GPT-2's alphabet of bytes, else as in
                                    // token_text.h
  std::vector<TokenKind> kinds;     // same length
  std::vector<std::string> merges;  // gpt2: "left right", best first
  std::vector<float> scores;        // llama: same length, the largest is the best
  std::optional<TokenId> bos, eos, eot, unknown;
  bool add_bos = false;           // bert: [CLS]
  bool add_eos = false;           // bert: [SEP]
  bool add_space_prefix = false;  // llama: text that follows nothing or a special token
  bool lowercase = false;         // bert
  bool strip_accents = false;     // bert
  // Phi-3: white space after control and user-defined tokens goes.
  bool strip_after_special = false;
};

Result<Vocabulary> read_vocabulary(const gguf::File& file);

// Lengths, ids, texts of special tokens. What only building finds (merges, pre-tokenizer) is
// checked there.
Status check_vocabulary(const Vocabulary& vocabulary);

}  // namespace pacer::text
