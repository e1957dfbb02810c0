// Text is cut at special tokens (special_tokens.h), and what lies between is the business of one of
// three encoders (text_encoder.h). This file puts them together and knows which tokens are special.

#include "text/tokenizer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "text/byte_alphabet.h"
#include "text/byte_level.h"
#include "text/sentence_piece.h"
#include "text/special_tokens.h"
#include "text/text_encoder.h"
#include "text/token_index.h"
#include "text/token_text.h"
#include "text/word_piece.h"

namespace pacer::text {
namespace {

// What models call the token that ends a turn or a document. Counted only where it is a control
// token; a file's own eos and eot count always.
constexpr std::array<std::string_view, 17> kEndTexts = {
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "</s>",
    "<eos>",
    "<end_of_turn>",
    "<|end_of_turn|>",
    "<EOT>",
    "<|eot|>",
    "<|eos|>",
    "<|return|>",
    "<|call|>",
    "<end_of_utterance>",
    "<\uFF5Cend\u2581of\u2581sentence\uFF5C>",
};

// Control tokens whatever the file says: some files call them normal, and then a user could write
// them. Ends of a turn or a document, and the marks around a text to fill in.
constexpr std::array<std::string_view, 33> kControlTexts = {
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<end_of_turn>",
    "<EOT>",
    "<|return|>",
    "<|call|>",
    "<end_of_utterance>",
    "<\uFF5Cend\u2581of\u2581sentence\uFF5C>",
    "<|fim_prefix|>",
    "<|fim_suffix|>",
    "<|fim_middle|>",
    "<|fim_pad|>",
    "<|fim_repo|>",
    "<|repo_name|>",
    "<|file_sep|>",
    "<fim-prefix>",
    "<fim-suffix>",
    "<fim-middle>",
    "<fim-pad>",
    "<fim_prefix>",
    "<fim_suffix>",
    "<fim_middle>",
    "<fim_pad>",
    "<reponame>",
    "<PRE>",
    "<SUF>",
    "<MID>",
    "<\uFF5Cfim\u2581begin\uFF5C>",
    "<\uFF5Cfim\u2581hole\uFF5C>",
};

template <class Texts>
bool contains(const Texts& texts, std::string_view text) {
  return std::find(texts.begin(), texts.end(), text) != texts.end();
}

std::string_view without_leading_space(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(" \t\n\v\f\r"), text.size()));
}

// The bytes that a token stands for in a text.
std::string bytes_of(const Vocabulary& vocabulary, TokenId id) {
  const std::string& text = vocabulary.tokens[id];
  const TokenKind kind = vocabulary.kinds[id];
  if (is_special_kind(kind)) return text;
  if (vocabulary.model == "gpt2") {
    return kind == TokenKind::kUserDefined ? text : bytes_of_token_text(text);
  }
  if (kind == TokenKind::kByte) {
    if (const auto byte = byte_of_token_text(text)) return std::string(1, static_cast<char>(*byte));
  }
  return with_spaces(text);
}

Result<std::unique_ptr<TextEncoder>> make_encoder(const Vocabulary& vocabulary) {
  if (vocabulary.model == "gpt2") return make_byte_level_encoder(vocabulary);
  if (vocabulary.model == "llama") return make_sentence_piece_encoder(vocabulary);
  CHECK(vocabulary.model == "bert", "no encoder for '{}'", vocabulary.model);
  return make_word_piece_encoder(vocabulary);
}

}  // namespace

struct Tokenizer::Impl {
  Vocabulary vocabulary;
  std::vector<std::string> bytes;      // by id
  std::optional<TokenIndex> by_bytes;  // set once the tokens are known
  SpecialTokens specials;
  std::unique_ptr<TextEncoder> encoder;
  std::vector<TokenId> end_of_generation;  // ascending

  void mark_control_tokens();
  void index_tokens();
  void find_end_of_generation();

  bool strips_space_after(TokenId id) const;
  bool puts_space_after(TokenId id) const;
};

void Tokenizer::Impl::mark_control_tokens() {
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    TokenKind& kind = vocabulary.kinds[id];
    const bool is_text = kind == TokenKind::kNormal || kind == TokenKind::kUserDefined;
    if (is_text && contains(kControlTexts, vocabulary.tokens[id])) kind = TokenKind::kControl;
    // "</s>" ends texts in many vocabularies, and is HTML to others, which call it user-defined.
    const bool is_html = kind == TokenKind::kUserDefined && !vocabulary.strip_after_special;
    if (is_text && vocabulary.tokens[id] == "</s>" && !is_html) kind = TokenKind::kControl;
  }
}

void Tokenizer::Impl::index_tokens() {
  const auto count = static_cast<TokenId>(vocabulary.tokens.size());
  bytes.reserve(count);
  for (TokenId id = 0; id < count; ++id) {
    bytes.push_back(bytes_of(vocabulary, id));
    const TokenKind kind = vocabulary.kinds[id];
    if (is_cut_out(kind)) specials.add(vocabulary.tokens[id], id, is_special_kind(kind));
  }
  // find() is mostly asked for control tokens, so they go before a normal token that reads the
  // same.
  by_bytes.emplace(count);
  for (const bool special : {true, false}) {
    for (TokenId id = 0; id < count; ++id) {
      if (is_special_kind(vocabulary.kinds[id]) == special) by_bytes->add(bytes[id], id);
    }
  }
}

void Tokenizer::Impl::find_end_of_generation() {
  for (TokenId id = 0; id < vocabulary.tokens.size(); ++id) {
    const bool is_named = vocabulary.eos == id || vocabulary.eot == id;
    const bool is_known =
        vocabulary.kinds[id] == TokenKind::kControl && contains(kEndTexts, vocabulary.tokens[id]);
    if (is_named || is_known) end_of_generation.push_back(id);
  }
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_vocabulary(Vocabulary vocabulary) {
  TRY(check_vocabulary(vocabulary));
  auto impl = std::make_unique<Impl>();
  impl->vocabulary = std::move(vocabulary);
  impl->mark_control_tokens();
  impl->index_tokens();
  ASSIGN_OR_RETURN(impl->encoder, make_encoder(impl->vocabulary));
  impl->find_end_of_generation();
  impl->vocabulary.merges = {};  // in the encoder now; megabytes
  impl->vocabulary.scores = {};
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(impl)));
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_gguf(const gguf::File& file) {
  ASSIGN_OR_RETURN(Vocabulary vocabulary, read_vocabulary(file));
  auto tokenizer = from_vocabulary(std::move(vocabulary));
  if (!tokenizer) {
    return error(tokenizer.error().code, "{}: {}", file.path(), tokenizer.error().message);
  }
  return tokenizer;
}

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

bool Tokenizer::Impl::strips_space_after(TokenId id) const {
  constexpr std::array<std::string_view, 3> kKeepIt = {"<unk>", "<s>", "<|endoftext|>"};
  return vocabulary.strip_after_special && !contains(kKeepIt, vocabulary.tokens[id]);
}

// Whether encode() saw a special token here. A user-defined one with U+2581 in it comes from within
// a text.
bool Tokenizer::Impl::puts_space_after(TokenId id) const {
  const TokenKind kind = vocabulary.kinds[id];
  return is_special_kind(kind) || (kind == TokenKind::kUserDefined &&
                                   vocabulary.tokens[id].find(kStoredSpace) == std::string::npos);
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  const Vocabulary& vocabulary = impl_->vocabulary;
  const std::string_view guard = options.guard;
  const SpecialTokens::Want with_control = {.control = options.parse_special,
                                            .one_character_control = guard.empty()};
  std::vector<TokenId> ids;
  bool at_start = true;
  const auto encode_between = [&](std::string_view part, SpecialTokens::Want want,
                                  const auto& encode_rest) {
    while (!part.empty()) {
      const auto found = impl_->specials.find(part, 0, want);
      const size_t end = found ? found->position : part.size();
      if (end > 0) encode_rest(part.substr(0, end));
      if (!found) return;
      ids.push_back(found->id);
      at_start = true;
      part.remove_prefix(end + found->size);
      if (impl_->strips_space_after(found->id)) part = without_leading_space(part);
    }
  };
  const auto plain = [&](std::string_view part) {
    impl_->encoder->encode(part, at_start, ids);
    at_start = false;
  };
  if (guard.empty()) {
    encode_between(text, with_control, plain);
  } else {
    // Special tokens are sought with the guards in place; between them the guards go, and what a
    // guard had broken up may still be a user-defined token.
    encode_between(text, with_control, [&](std::string_view part) {
      encode_between(without(part, guard), {.control = false}, plain);
    });
  }
  if (options.add_special) put_one_bos(ids);
  if (options.add_special && vocabulary.add_eos && (ids.empty() || ids.back() != vocabulary.eos)) {
    ids.push_back(*vocabulary.eos);
  }
  return ids;
}

void Tokenizer::put_one_bos(std::vector<TokenId>& ids) const {
  if (!adds_bos()) return;  // those in the text are meant so
  const auto first_other =
      std::find_if(ids.begin(), ids.end(), [&](TokenId id) { return id != bos(); });
  ids.erase(ids.begin(), first_other);
  ids.insert(ids.begin(), *bos());
}

std::string_view Tokenizer::token_bytes(TokenId id) const {
  CHECK(id < vocabulary_size(), "token {} of {}", id, vocabulary_size());
  return impl_->bytes[id];
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  const bool has_space_prefix =
      impl_->vocabulary.add_space_prefix || impl_->vocabulary.model == "bert";
  std::string out;
  bool at_start = true;
  for (const TokenId id : ids) {
    std::string_view bytes = token_bytes(id);
    if (has_space_prefix && at_start && !is_special(id) && bytes.starts_with(' ')) {
      bytes.remove_prefix(1);
    }
    at_start = impl_->puts_space_after(id);
    if (!skip_special || !is_special(id)) out.append(bytes);
  }
  return out;
}

uint32_t Tokenizer::vocabulary_size() const {
  return static_cast<uint32_t>(impl_->vocabulary.tokens.size());
}

TokenKind Tokenizer::kind(TokenId id) const {
  CHECK(id < vocabulary_size(), "token {} of {}", id, vocabulary_size());
  return impl_->vocabulary.kinds[id];
}

bool Tokenizer::is_special(TokenId id) const {
  return is_special_kind(kind(id));
}

bool Tokenizer::is_end_of_generation(TokenId id) const {
  return std::binary_search(impl_->end_of_generation.begin(), impl_->end_of_generation.end(), id);
}

std::vector<TokenId> Tokenizer::end_of_generation() const {
  return impl_->end_of_generation;
}
std::optional<TokenId> Tokenizer::bos() const {
  return impl_->vocabulary.bos;
}
std::optional<TokenId> Tokenizer::eos() const {
  return impl_->vocabulary.eos;
}
bool Tokenizer::adds_bos() const {
  return impl_->vocabulary.add_bos;
}

std::optional<TokenId> Tokenizer::find(std::string_view token_text) const {
  return impl_->by_bytes->find(token_text);
}

}  // namespace pacer::text
