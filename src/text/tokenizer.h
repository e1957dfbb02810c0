// Text to token ids and back, from the tokenizer metadata of a GGUF file. Byte-level BPE today.
//
// Thread-safe after construction: I/O threads encode while the engine thread decodes.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/token.h"
#include "gguf/file.h"

namespace pacer::text {

enum class TokenKind : uint8_t { kNormal, kUnknown, kControl, kUserDefined, kUnused, kByte };

// What a tokenizer is made of; read from a GGUF, or written by hand in tests.
struct Vocabulary {
  std::string model = "gpt2";       // tokenizer.ggml.model
  std::string pre = "gpt-2";        // tokenizer.ggml.pre
  std::vector<std::string> tokens;  // as stored: in the byte-to-unicode alphabet of GPT-2
  std::vector<TokenKind> kinds;     // same length
  std::vector<std::string> merges;  // "left right", best first
  std::optional<TokenId> bos, eos, eot, unknown, padding;
  bool add_bos = false;
  bool add_eos = false;
};

struct EncodeOptions {
  bool add_special = true;    // BOS (and EOS) where the model wants one; never a second BOS
  bool parse_special = true;  // the text of a control token becomes that token
  // A character that breaks up what is no control token (chat_template.h); left out once those are
  // found.
  std::string_view guard = {};
};

class Tokenizer {
 public:
  static Result<std::unique_ptr<Tokenizer>> from_gguf(const gguf::File& file);
  static Result<std::unique_ptr<Tokenizer>> from_vocabulary(Vocabulary vocabulary);
  ~Tokenizer();

  // Any bytes, invalid UTF-8 included. Linear in the length but for a log factor.
  std::vector<TokenId> encode(std::string_view text, EncodeOptions options = {}) const;

  // The bytes a token stands for; may be part of a character. Control tokens: their text
  // ("<|im_end|>").
  std::string_view token_bytes(TokenId id) const;
  // All bytes back to back. skip_special: control tokens are left out. Not necessarily valid UTF-8.
  std::string decode(std::span<const TokenId> ids, bool skip_special) const;

  uint32_t vocabulary_size() const;
  TokenKind kind(TokenId id) const;
  bool is_special(TokenId id) const;  // control tokens
  bool is_end_of_generation(
      TokenId id) const;  // EOS, EOT and their kind: "<|im_end|>", "<|eot_id|>", ...
  std::vector<TokenId> end_of_generation() const;
  std::optional<TokenId> bos() const;
  std::optional<TokenId> eos() const;
  bool adds_bos() const;  // encode() puts BOS in front, unless asked not to
  std::optional<TokenId> find(std::string_view token_text) const;  // by bytes, e.g. "<|im_start|>"

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace pacer::text
