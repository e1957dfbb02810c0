// Text is cut three times: at special tokens, then by the pre-tokenizer, then by byte-pair
// encoding. Each cut is a class of its own (special_tokens.h, pretokenizer.h, bpe.h); this file
// puts them together and knows the ids.

#include "text/tokenizer.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "text/bpe.h"
#include "text/byte_alphabet.h"
#include "text/pretokenizer.h"
#include "text/special_tokens.h"
#include "text/vocabulary.h"

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

bool is_special_kind(TokenKind kind) {
  return kind == TokenKind::kControl || kind == TokenKind::kUnknown;
}

bool is_end_text(std::string_view text) {
  return std::find(kEndTexts.begin(), kEndTexts.end(), text) != kEndTexts.end();
}

// The two sides of a merge, or nothing. A side is never empty and has no space; the byte alphabet
// has none either.
std::optional<std::pair<std::string_view, std::string_view>> sides_of(std::string_view merge) {
  const size_t space = merge.find(' ');
  if (space == std::string_view::npos || space == 0 || space + 1 == merge.size()) return {};
  if (merge.find(' ', space + 1) != std::string_view::npos) return {};
  return std::pair{merge.substr(0, space), merge.substr(space + 1)};
}

std::string without(std::string_view text, std::string_view guard) {
  std::string out;
  out.reserve(text.size());
  for (size_t from = 0; from < text.size();) {
    const size_t at = std::min(text.find(guard, from), text.size());
    out.append(text.substr(from, at - from));
    from = at + guard.size();
  }
  return out;
}

}  // namespace

struct Tokenizer::Impl {
  Vocabulary vocabulary;
  std::vector<std::string> bytes;                          // by id
  std::unordered_map<std::string_view, TokenId> by_bytes;  // views into `bytes`
  SpecialTokens specials;
  std::unique_ptr<Pretokenizer> pretokenizer;
  std::optional<Bpe> bpe;
  std::vector<TokenId> end_of_generation;  // ascending

  void index_tokens();
  Status build_bpe();
  void find_end_of_generation();

  void encode_plain(std::string_view text, std::vector<TokenId>& ids) const;
  std::optional<TokenId> whole_piece(std::string_view piece) const;
};

void Tokenizer::Impl::index_tokens() {
  const size_t count = vocabulary.tokens.size();
  bytes.reserve(count);  // never reallocated: by_bytes points into it
  by_bytes.reserve(count);
  for (TokenId id = 0; id < count; ++id) {
    const std::string& text = vocabulary.tokens[id];
    const TokenKind kind = vocabulary.kinds[id];
    const bool is_special = is_special_kind(kind);
    const bool is_raw = is_special || kind == TokenKind::kUserDefined;
    bytes.push_back(is_raw ? text : bytes_of_token_text(text));
    if (is_raw) specials.add(text, id, is_special);
    // find() is mostly asked for control tokens, so they go before a normal token that reads the
    // same.
    const auto [entry, added] = by_bytes.try_emplace(bytes.back(), id);
    if (!added && is_special && !is_special_kind(vocabulary.kinds[entry->second])) {
      entry->second = id;
    }
  }
}

Status Tokenizer::Impl::build_bpe() {
  // By stored text. Control tokens are not in it: text cannot be merged into one.
  std::unordered_map<std::string_view, TokenId> by_text;
  std::unordered_set<std::string_view> control_texts;
  by_text.reserve(vocabulary.tokens.size());
  for (TokenId id = 0; id < vocabulary.tokens.size(); ++id) {
    if (is_special_kind(vocabulary.kinds[id])) {
      control_texts.insert(vocabulary.tokens[id]);
    } else {
      by_text.try_emplace(vocabulary.tokens[id], id);
    }
  }
  bpe.emplace(vocabulary.merges.size());
  for (unsigned byte = 0; byte < 256; ++byte) {
    const auto entry = by_text.find(alphabet_character(static_cast<uint8_t>(byte)));
    if (entry != by_text.end()) bpe->add_byte(static_cast<uint8_t>(byte), entry->second);
  }
  std::string joined;
  for (size_t rank = 0; rank < vocabulary.merges.size(); ++rank) {
    const std::string& merge = vocabulary.merges[rank];
    const auto sides = sides_of(merge);
    if (!sides) {
      return error(Code::kBadFile, "merge {} is '{}', which is not two texts with a space between",
                   rank, merge.substr(0, 64));
    }
    joined.assign(sides->first).append(sides->second);
    std::array<TokenId, 3> ids{};
    bool has_control = false;
    const std::array<std::string_view, 3> texts = {sides->first, sides->second, joined};
    for (size_t i = 0; i < texts.size(); ++i) {
      if (const auto entry = by_text.find(texts[i]); entry != by_text.end()) {
        ids[i] = entry->second;
      } else if (control_texts.contains(texts[i])) {
        has_control = true;
      } else {
        return error(Code::kBadFile, "merge {} ('{}') needs '{}', which is not in the vocabulary",
                     rank, merge.substr(0, 64), texts[i].substr(0, 64));
      }
    }
    if (!has_control) bpe->add_merge(ids[0], ids[1], {static_cast<uint32_t>(rank), ids[2]});
  }
  return Ok{};
}

void Tokenizer::Impl::find_end_of_generation() {
  for (TokenId id = 0; id < vocabulary.tokens.size(); ++id) {
    const bool is_named = vocabulary.eos == id || vocabulary.eot == id;
    const bool is_known =
        vocabulary.kinds[id] == TokenKind::kControl && is_end_text(vocabulary.tokens[id]);
    if (is_named || is_known) end_of_generation.push_back(id);
  }
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::from_vocabulary(Vocabulary vocabulary) {
  TRY(check_vocabulary(vocabulary));
  auto impl = std::make_unique<Impl>();
  ASSIGN_OR_RETURN(impl->pretokenizer, Pretokenizer::create(vocabulary.pre));
  impl->vocabulary = std::move(vocabulary);
  impl->index_tokens();
  TRY(impl->build_bpe());
  impl->find_end_of_generation();
  impl->vocabulary.merges = {};  // in the merge table now; megabytes
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

std::optional<TokenId> Tokenizer::Impl::whole_piece(std::string_view piece) const {
  if (!pretokenizer->ignore_merges()) return std::nullopt;
  const auto entry = by_bytes.find(piece);
  if (entry == by_bytes.end() || vocabulary.kinds[entry->second] != TokenKind::kNormal) {
    return std::nullopt;
  }
  return entry->second;
}

void Tokenizer::Impl::encode_plain(std::string_view text, std::vector<TokenId>& ids) const {
  std::vector<std::string_view> pieces;
  std::vector<TokenId> scratch;
  pretokenizer->split(text, pieces);
  for (const std::string_view piece : pieces) {
    if (const auto id = whole_piece(piece)) {
      ids.push_back(*id);
    } else {
      bpe->encode(piece, ids, scratch);
    }
  }
}

std::vector<TokenId> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  const Vocabulary& vocabulary = impl_->vocabulary;
  const std::string_view guard = options.guard;
  const SpecialTokens::Want with_control = {.control = options.parse_special,
                                            .one_character_control = guard.empty()};
  std::vector<TokenId> ids;
  const auto encode_between = [&](std::string_view part, SpecialTokens::Want want,
                                  const auto& encode_rest) {
    for (size_t from = 0; from < part.size();) {
      const auto found = impl_->specials.find(part, from, want);
      const size_t end = found ? found->position : part.size();
      if (end > from) encode_rest(part.substr(from, end - from));
      if (found) ids.push_back(found->id);
      from = end + (found ? found->size : 0);
    }
  };
  const auto plain = [&](std::string_view part) { impl_->encode_plain(part, ids); };
  if (guard.empty()) {
    encode_between(text, with_control, plain);
  } else {
    // Special tokens are sought with the guards in place; between them the guards go, and what a
    // guard had broken up may still be a user-defined token.
    encode_between(text, with_control, [&](std::string_view part) {
      encode_between(without(part, guard), {.control = false}, plain);
    });
  }
  if (options.add_special && vocabulary.add_bos && (ids.empty() || ids.front() != vocabulary.bos)) {
    ids.insert(ids.begin(), *vocabulary.bos);
  }
  if (options.add_special && vocabulary.add_eos && (ids.empty() || ids.back() != vocabulary.eos)) {
    ids.push_back(*vocabulary.eos);
  }
  return ids;
}

std::string_view Tokenizer::token_bytes(TokenId id) const {
  CHECK(id < vocabulary_size(), "token {} of {}", id, vocabulary_size());
  return impl_->bytes[id];
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  std::string out;
  for (const TokenId id : ids) {
    if (!skip_special || !is_special(id)) out.append(token_bytes(id));
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
  const auto entry = impl_->by_bytes.find(token_text);
  if (entry == impl_->by_bytes.end()) return std::nullopt;
  return entry->second;
}

}  // namespace pacer::text
