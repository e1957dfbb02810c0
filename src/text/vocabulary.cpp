// Nothing here is trusted: a GGUF comes from anywhere. Every Error names the metadata key or the
// token.

#include "text/vocabulary.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>

#include "text/pretokenizer.h"
#include "text/utf8.h"

namespace pacer::text {
namespace {

// Twenty times the largest vocabularies in use. Ids then fit 32 bits with room, and a padded file
// stays loadable.
constexpr size_t kTokensMax = 1 << 22;
// Bounds on what the trees over special tokens cost. Real ones: about 30 bytes each, 80 kB
// together.
constexpr size_t kSpecialTextSizeMax = 512;
constexpr size_t kSpecialTextSizeSumMax = 1 << 20;

// tokenizer.ggml.token_type; 0 ("undefined") is written by some converters for padding.
constexpr std::array kKinds = {TokenKind::kUnused,  TokenKind::kNormal,      TokenKind::kUnknown,
                               TokenKind::kControl, TokenKind::kUserDefined, TokenKind::kUnused,
                               TokenKind::kByte};

Result<std::vector<TokenKind>> read_kinds(const gguf::File& file, size_t token_count) {
  const std::vector<uint64_t>* types = file.find_uints("tokenizer.ggml.token_type");
  if (types == nullptr) {
    return error(Code::kBadFile, "{}: 'tokenizer.ggml.token_type' is missing or no list of types",
                 file.path());
  }
  if (types->size() != token_count) {
    return error(Code::kBadFile, "{}: 'tokenizer.ggml.token_type' has {} entries for {} tokens",
                 file.path(), types->size(), token_count);
  }
  std::vector<TokenKind> kinds;
  kinds.reserve(types->size());
  for (size_t id = 0; id < types->size(); ++id) {
    const uint64_t type = (*types)[id];
    if (type >= kKinds.size()) {
      return error(Code::kBadFile, "{}: token {} has type {}; known are 0 to {}", file.path(), id,
                   type, kKinds.size() - 1);
    }
    kinds.push_back(kKinds[type]);
  }
  return kinds;
}

Status read_id(const gguf::File& file, const char* key, std::optional<TokenId>& id) {
  ASSIGN_OR_RETURN(const auto value, file.find_uint(key));
  if (!value) return Ok{};
  // Checked against the vocabulary later; here only that it fits.
  if (*value >= kTokensMax) {
    return error(Code::kBadFile, "{}: '{}' is {}, which is no token id", file.path(), key, *value);
  }
  id = static_cast<TokenId>(*value);
  return Ok{};
}

Status check_id(const char* name, std::optional<TokenId> id, size_t token_count) {
  if (!id || *id < token_count) return Ok{};
  return error(Code::kBadFile, "the {} token id is {}; the vocabulary has {} tokens", name, *id,
               token_count);
}

bool is_special_text(TokenKind kind) {
  return kind == TokenKind::kControl || kind == TokenKind::kUnknown ||
         kind == TokenKind::kUserDefined;
}

Status check_special_texts(const Vocabulary& vocabulary) {
  size_t sum = 0;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string& text = vocabulary.tokens[id];
    if (!is_special_text(vocabulary.kinds[id])) continue;
    if (text.size() > kSpecialTextSizeMax) {
      return error(Code::kBadFile, "special token {} has {} bytes; the limit is {}", id,
                   text.size(), kSpecialTextSizeMax);
    }
    if (!is_valid_utf8(text)) {
      return error(Code::kBadFile, "special token {} is not valid UTF-8", id);
    }
    sum += text.size();
  }
  if (sum > kSpecialTextSizeSumMax) {
    return error(Code::kBadFile, "the special tokens have {} bytes together; the limit is {}", sum,
                 kSpecialTextSizeSumMax);
  }
  return Ok{};
}

}  // namespace

Result<Vocabulary> read_vocabulary(const gguf::File& file) {
  Vocabulary vocabulary;
  ASSIGN_OR_RETURN(vocabulary.model, file.require_string("tokenizer.ggml.model"));
  if (vocabulary.model != "gpt2") return vocabulary;  // refused by name later; its lists differ
  ASSIGN_OR_RETURN(vocabulary.pre, file.require_string("tokenizer.ggml.pre"));

  const auto* tokens = file.find_strings("tokenizer.ggml.tokens");
  const auto* merges = file.find_strings("tokenizer.ggml.merges");
  for (const auto& [key, list] :
       {std::pair{"tokenizer.ggml.tokens", tokens}, {"tokenizer.ggml.merges", merges}}) {
    if (list == nullptr) {
      return error(Code::kBadFile, "{}: '{}' is missing or no list of strings", file.path(), key);
    }
  }
  vocabulary.tokens.assign(tokens->begin(), tokens->end());
  vocabulary.merges.assign(merges->begin(), merges->end());
  ASSIGN_OR_RETURN(vocabulary.kinds, read_kinds(file, tokens->size()));

  TRY(read_id(file, "tokenizer.ggml.bos_token_id", vocabulary.bos));
  TRY(read_id(file, "tokenizer.ggml.eos_token_id", vocabulary.eos));
  TRY(read_id(file, "tokenizer.ggml.eot_token_id", vocabulary.eot));
  TRY(read_id(file, "tokenizer.ggml.unknown_token_id", vocabulary.unknown));
  TRY(read_id(file, "tokenizer.ggml.padding_token_id", vocabulary.padding));
  ASSIGN_OR_RETURN(const auto add_bos, file.find_bool("tokenizer.ggml.add_bos_token"));
  ASSIGN_OR_RETURN(const auto add_eos, file.find_bool("tokenizer.ggml.add_eos_token"));
  vocabulary.add_bos = add_bos.value_or(vocabulary.bos && add_bos_by_default(vocabulary.pre));
  vocabulary.add_eos = add_eos.value_or(false);
  return vocabulary;
}

Status check_vocabulary(const Vocabulary& vocabulary) {
  if (vocabulary.model != "gpt2") {
    return error(Code::kUnsupported,
                 "tokenizer model '{}' is unknown; known are gpt2 (byte-level BPE)",
                 vocabulary.model);
  }
  const size_t count = vocabulary.tokens.size();
  if (count == 0 || count > kTokensMax) {
    return error(Code::kBadFile, "the vocabulary has {} tokens; 1 to {} are allowed", count,
                 kTokensMax);
  }
  if (vocabulary.kinds.size() != count) {
    return error(Code::kBadFile, "the vocabulary has {} tokens but {} token types", count,
                 vocabulary.kinds.size());
  }
  TRY(check_id("BOS", vocabulary.bos, count));
  TRY(check_id("EOS", vocabulary.eos, count));
  TRY(check_id("EOT", vocabulary.eot, count));
  TRY(check_id("unknown", vocabulary.unknown, count));
  TRY(check_id("padding", vocabulary.padding, count));
  if (vocabulary.add_bos && !vocabulary.bos) {
    return error(Code::kBadFile, "the tokenizer adds a BOS token but has none");
  }
  if (vocabulary.add_eos && !vocabulary.eos) {
    return error(Code::kBadFile, "the tokenizer adds an EOS token but has none");
  }
  return check_special_texts(vocabulary);
}

}  // namespace pacer::text
