// Text to token ids and back, from the tokenizer metadata of a GGUF file: byte-level BPE,
// SentencePiece-style BPE and WordPiece (byte_level.h, sentence_piece.h, word_piece.h).
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
#include "text/vocabulary.h"

namespace pacer::text {

struct EncodeOptions {
  bool add_special = true;    // BOS (and EOS) where the model wants one; exactly one BOS
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

  // Any bytes, invalid UTF-8 included. Linear in the length but for a log factor. decode() gives
  // the text back, except: ill-formed UTF-8 (byte_level.h), U+2581 where that stands for a space
  // (sentence_piece.h), and what WordPiece leaves out.
  std::vector<TokenId> encode(std::string_view text, EncodeOptions options = {}) const;

  // Where the model wants a BOS, `ids` begin with exactly one, whether or not they began with some.
  void put_one_bos(std::vector<TokenId>& ids) const;

  // The bytes a token stands for; may be part of a character. Control tokens: their text
  // ("<|im_end|>").
  std::string_view token_bytes(TokenId id) const;
  // All bytes back to back. skip_special: control tokens are left out. Not necessarily valid UTF-8.
  // Where encode() puts a space before a text (at the beginning, and after a special token), that
  // space is taken off again: this is for whole texts, not for an answer that goes on after a
  // prompt.
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
