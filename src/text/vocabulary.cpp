// Nothing here is trusted: a GGUF comes from anywhere. Every Error names the metadata key or the
// token.

#include "text/vocabulary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "text/pretokenizer.h"
#include "text/utf8.h"

namespace pacer::text {
namespace {

// Four times the largest vocabularies in use, so that a padded file stays loadable.
constexpr size_t kTokensMax = 1 << 20;
// Some vocabularies have several merges for a token.
constexpr size_t kMergesMax = 1 << 24;
// Token texts are kept several times over. Real ones: eight bytes each, three megabytes together.
constexpr size_t kTextSizeSumMax = 1 << 26;
// Bounds on what the trees over special tokens cost. Real ones: about 30 bytes each, 80 kB
// together.
constexpr size_t kSpecialTextSizeMax = 512;
constexpr size_t kSpecialTextSizeSumMax = 1 << 20;

// tokenizer.ggml.token_type; 0 ("undefined") is written by some converters for padding.
constexpr std::array kKinds = {TokenKind::kUnused,  TokenKind::kNormal,      TokenKind::kUnknown,
                               TokenKind::kControl, TokenKind::kUserDefined, TokenKind::kUnused,
                               TokenKind::kByte};

// Every shorter prefix of a word is looked up. The longest token of BERT's own vocabulary has 21.
constexpr size_t kWordPieceSizeMax = 256;

Result<std::vector<TokenKind>> read_kinds(const gguf::File& file, size_t token_count) {
  constexpr const char* kTypes = "tokenizer.ggml.token_type";
  if (!file.metadata().contains(kTypes)) {
    return std::vector<TokenKind>(token_count, TokenKind::kNormal);
  }
  const std::vector<uint64_t>* types = file.find_uints(kTypes);
  if (types == nullptr) {
    return error(Code::kBadFile, "{}: '{}' is no list of types", file.path(), kTypes);
  }
  if (types->size() != token_count) {
    return error(Code::kBadFile, "{}: '{}' has {} entries for {} tokens", file.path(), kTypes,
                 types->size(), token_count);
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

// One beyond the vocabulary is as good as none: converters write such ids, and llama.cpp takes the
// file.
Status read_id(const gguf::File& file, const char* key, size_t token_count,
               std::optional<TokenId>& id) {
  ASSIGN_OR_RETURN(const auto value, file.find_uint(key));
  if (!value) return Ok{};
  if (*value >= token_count) {
    log::warn("{}: '{}' is {}, but there are {} tokens; it is ignored", file.path(), key, *value,
              token_count);
    return Ok{};
  }
  id = static_cast<TokenId>(*value);
  return Ok{};
}

Status check_id(const char* name, std::optional<TokenId> id, size_t token_count) {
  if (!id || *id < token_count) return Ok{};
  return error(Code::kBadFile, "the {} token id is {}; the vocabulary has {} tokens", name, *id,
               token_count);
}

Status check_text_sizes(const Vocabulary& vocabulary) {
  size_t sum = 0;
  for (const std::string& text : vocabulary.tokens) sum += text.size();
  if (sum <= kTextSizeSumMax) return Ok{};
  return error(Code::kBadFile, "the tokens have {} bytes together; the limit is {}", sum,
               kTextSizeSumMax);
}

Status check_special_texts(const Vocabulary& vocabulary) {
  size_t sum = 0;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string& text = vocabulary.tokens[id];
    if (!is_cut_out(vocabulary.kinds[id])) continue;
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

// A token that the file names, or `otherwise` where it does not and there is such a token.
Status read_id_or(const gguf::File& file, const char* key, TokenId otherwise, size_t token_count,
                  std::optional<TokenId>& id) {
  TRY(read_id(file, key, token_count, id));
  if (!id && otherwise < token_count) id = otherwise;
  return Ok{};
}

Result<std::vector<std::string>> read_strings(const gguf::File& file, const char* key) {
  const auto* list = file.find_strings(key);
  if (list == nullptr) {
    return error(Code::kBadFile, "{}: '{}' is missing or no list of strings", file.path(), key);
  }
  return std::vector<std::string>(list->begin(), list->end());
}

Status check_count(size_t count) {
  if (count >= 1 && count <= kTokensMax) return Ok{};
  return error(Code::kBadFile, "the vocabulary has {} tokens; 1 to {} are allowed", count,
               kTokensMax);
}

// Before a long list is copied and indexed. A file of a vocabulary alone has no embedding.
Status check_token_count(const gguf::File& file) {
  const auto* tokens = file.find_strings("tokenizer.ggml.tokens");
  if (tokens == nullptr) return Ok{};  // refused by read_strings()
  if (const Status status = check_count(tokens->size()); !status) {
    return error(status.error().code, "{}: {}", file.path(), status.error().message);
  }
  const gguf::TensorInfo* embedding = file.find_tensor("token_embd.weight");
  if (embedding != nullptr && tokens->size() > embedding->rows()) {
    return error(Code::kBadFile, "{}: the tokenizer has {} tokens, the embedding has {}",
                 file.path(), tokens->size(), embedding->rows());
  }
  return Ok{};
}

Status read_flag(const gguf::File& file, const char* key, bool& flag) {
  ASSIGN_OR_RETURN(const auto value, file.find_bool(key));
  if (value) flag = *value;
  return Ok{};
}

Status read_byte_level(const gguf::File& file, Vocabulary& vocabulary) {
  const size_t count = vocabulary.tokens.size();
  ASSIGN_OR_RETURN(const auto pre, file.find_string("tokenizer.ggml.pre"));
  vocabulary.pre = pre.value_or("default");  // files of before the key was thought of
  ASSIGN_OR_RETURN(vocabulary.merges, read_strings(file, "tokenizer.ggml.merges"));
  TRY(read_id(file, "tokenizer.ggml.bos_token_id", count, vocabulary.bos));
  TRY(read_id(file, "tokenizer.ggml.eos_token_id", count, vocabulary.eos));
  TRY(read_id(file, "tokenizer.ggml.unknown_token_id", count, vocabulary.unknown));
  vocabulary.add_bos = vocabulary.bos && add_bos_by_default(vocabulary.pre);
  TRY(read_flag(file, "tokenizer.ggml.add_bos_token", vocabulary.add_bos));
  return read_flag(file, "tokenizer.ggml.add_eos_token", vocabulary.add_eos);
}

// Without scores all are equal, as in llama.cpp: then it is the leftmost pair that joins.
Result<std::vector<float>> read_scores(const gguf::File& file, size_t token_count) {
  constexpr const char* kScores = "tokenizer.ggml.scores";
  if (!file.metadata().contains(kScores)) return std::vector<float>(token_count, 0.0f);
  const auto* scores = file.find_floats(kScores);
  if (scores == nullptr) {
    return error(Code::kBadFile, "{}: '{}' is no list of floats", file.path(), kScores);
  }
  return std::vector<float>(scores->begin(), scores->end());
}

// Phi-3's special tokens take the white space after them, which no key of the file says.
bool is_phi3(const gguf::File& file) {
  const auto name = file.find_string("general.name");
  if (!name.ok() || !name->has_value()) return false;
  std::string lower(**name);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower.find("phi-3") != std::string::npos || lower.find("phi3") != std::string::npos;
}

Status read_sentence_piece(const gguf::File& file, Vocabulary& vocabulary) {
  const size_t count = vocabulary.tokens.size();
  ASSIGN_OR_RETURN(vocabulary.scores, read_scores(file, count));
  // Where the file does not say, the ids of SentencePiece's own defaults.
  TRY(read_id_or(file, "tokenizer.ggml.bos_token_id", 1, count, vocabulary.bos));
  TRY(read_id_or(file, "tokenizer.ggml.eos_token_id", 2, count, vocabulary.eos));
  TRY(read_id_or(file, "tokenizer.ggml.unknown_token_id", 0, count, vocabulary.unknown));
  vocabulary.add_bos = vocabulary.bos.has_value();
  vocabulary.add_space_prefix = true;
  vocabulary.strip_after_special = is_phi3(file);
  TRY(read_flag(file, "tokenizer.ggml.add_bos_token", vocabulary.add_bos));
  TRY(read_flag(file, "tokenizer.ggml.add_eos_token", vocabulary.add_eos));
  return read_flag(file, "tokenizer.ggml.add_space_prefix", vocabulary.add_space_prefix);
}

Status read_word_piece(const gguf::File& file, Vocabulary& vocabulary) {
  const size_t count = vocabulary.tokens.size();
  // Where the file does not say, the ids of BERT's own vocabulary.
  TRY(read_id(file, "tokenizer.ggml.bos_token_id", count, vocabulary.bos));
  if (!vocabulary.bos) {
    TRY(read_id_or(file, "tokenizer.ggml.cls_token_id", 101, count, vocabulary.bos));
  }
  // The key is misspelt in the files.
  TRY(read_id_or(file, "tokenizer.ggml.seperator_token_id", 102, count, vocabulary.eos));
  TRY(read_id_or(file, "tokenizer.ggml.unknown_token_id", 100, count, vocabulary.unknown));
  vocabulary.add_bos = vocabulary.add_eos = true;
  vocabulary.lowercase = true;
  TRY(read_flag(file, "tokenizer.ggml.normalizer.lowercase", vocabulary.lowercase));
  vocabulary.strip_accents = vocabulary.lowercase;
  return read_flag(file, "tokenizer.ggml.normalizer.strip_accents", vocabulary.strip_accents);
}

Status check_merge_count(const Vocabulary& vocabulary) {
  if (vocabulary.merges.size() <= kMergesMax) return Ok{};
  return error(Code::kBadFile, "the vocabulary has {} merges; the limit is {}",
               vocabulary.merges.size(), kMergesMax);
}

Status check_scores(const Vocabulary& vocabulary) {
  if (vocabulary.scores.size() != vocabulary.tokens.size()) {
    return error(Code::kBadFile, "the vocabulary has {} tokens but {} scores",
                 vocabulary.tokens.size(), vocabulary.scores.size());
  }
  const auto nan = std::find_if(vocabulary.scores.begin(), vocabulary.scores.end(),
                                [](float score) { return std::isnan(score); });
  if (nan == vocabulary.scores.end()) return Ok{};
  return error(Code::kBadFile, "the score of token {} is not a number",
               nan - vocabulary.scores.begin());
}

Status check_word_pieces(const Vocabulary& vocabulary) {
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const size_t size = vocabulary.tokens[id].size();
    if (size > kWordPieceSizeMax) {
      return error(Code::kBadFile, "token {} has {} bytes; the limit of WordPiece is {}", id, size,
                   kWordPieceSizeMax);
    }
  }
  return Ok{};
}

// What a kind of tokenizer adds to what all have. A row here, an encoder, and its line in
// tokenizer.cpp are a new kind.
struct Model {
  std::string_view name;
  Status (*read)(const gguf::File& file, Vocabulary& vocabulary);
  Status (*check)(const Vocabulary& vocabulary);
};

constexpr std::array kModels = {
    Model{"gpt2", read_byte_level, check_merge_count},
    Model{"llama", read_sentence_piece, check_scores},
    Model{"bert", read_word_piece, check_word_pieces},
};

Result<const Model*> find_model(std::string_view name) {
  for (const Model& model : kModels) {
    if (model.name == name) return &model;
  }
  return error(Code::kUnsupported,
               "tokenizer model '{}' is unknown; known are gpt2 (byte-level BPE), llama "
               "(SentencePiece) and bert (WordPiece)",
               name);
}

}  // namespace

Result<Vocabulary> read_vocabulary(const gguf::File& file) {
  Vocabulary vocabulary;
  ASSIGN_OR_RETURN(vocabulary.model, file.require_string("tokenizer.ggml.model"));
  const auto model = find_model(vocabulary.model);
  if (!model) return vocabulary;  // refused by check_vocabulary; its lists differ
  TRY(check_token_count(file));
  ASSIGN_OR_RETURN(vocabulary.tokens, read_strings(file, "tokenizer.ggml.tokens"));
  ASSIGN_OR_RETURN(vocabulary.kinds, read_kinds(file, vocabulary.tokens.size()));
  TRY(read_id(file, "tokenizer.ggml.eot_token_id", vocabulary.tokens.size(), vocabulary.eot));
  TRY((*model)->read(file, vocabulary));
  return vocabulary;
}

Status check_vocabulary(const Vocabulary& vocabulary) {
  ASSIGN_OR_RETURN(const Model* model, find_model(vocabulary.model));
  const size_t count = vocabulary.tokens.size();
  TRY(check_count(count));
  if (vocabulary.kinds.size() != count) {
    return error(Code::kBadFile, "the vocabulary has {} tokens but {} token types", count,
                 vocabulary.kinds.size());
  }
  TRY(check_id("BOS", vocabulary.bos, count));
  TRY(check_id("EOS", vocabulary.eos, count));
  TRY(check_id("EOT", vocabulary.eot, count));
  TRY(check_id("unknown", vocabulary.unknown, count));
  if (vocabulary.add_bos && !vocabulary.bos) {
    return error(Code::kBadFile, "the tokenizer adds a BOS token but has none");
  }
  if (vocabulary.add_eos && !vocabulary.eos) {
    return error(Code::kBadFile, "the tokenizer adds an EOS token but has none");
  }
  TRY(check_text_sizes(vocabulary));
  TRY(check_special_texts(vocabulary));
  return model->check(vocabulary);
}

}  // namespace pacer::text
