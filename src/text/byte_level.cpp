#include "text/byte_level.h"

#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "text/bpe.h"
#include "text/byte_alphabet.h"
#include "text/pretokenizer.h"
#include "text/token_index.h"
#include "text/utf8.h"

namespace pacer::text {
namespace {

// The two sides of a merge, or nothing. A side is never empty and has no space; the byte alphabet
// has none either.
std::optional<std::pair<std::string_view, std::string_view>> sides_of(std::string_view merge) {
  const size_t space = merge.find(' ');
  if (space == std::string_view::npos || space == 0 || space + 1 == merge.size()) return {};
  if (merge.find(' ', space + 1) != std::string_view::npos) return {};
  return std::pair{merge.substr(0, space), merge.substr(space + 1)};
}

// The texts that merges speak of, as symbols of a Bpe: tokens, and where the vocabulary has none
// (pruned ones, and those with a merge that names no token) stand-ins, which end as the tokens of
// their bytes. llama.cpp does so too, but loses bytes that its alphabet does not spell as ASCII.
class MergeTexts {
 public:
  // Tells `bpe` the tokens of single bytes.
  MergeTexts(const Vocabulary& vocabulary, Bpe& bpe);

  // Nothing for a control token: text cannot be merged into one.
  std::optional<TokenId> symbol_of(std::string_view text);

 private:
  TokenId add_stand_in(std::string_view text);

  Bpe& bpe_;
  std::unordered_map<std::string_view, TokenId> tokens_;  // by stored text, without control tokens
  std::unordered_set<std::string_view> control_texts_;
  std::unordered_map<std::string, TokenId> stand_ins_;
};

MergeTexts::MergeTexts(const Vocabulary& vocabulary, Bpe& bpe) : bpe_(bpe) {
  tokens_.reserve(vocabulary.tokens.size());
  for (TokenId id = 0; id < vocabulary.tokens.size(); ++id) {
    if (is_special_kind(vocabulary.kinds[id])) {
      control_texts_.insert(vocabulary.tokens[id]);
    } else {
      tokens_.try_emplace(vocabulary.tokens[id], id);
    }
  }
  for (unsigned value = 0; value < 256; ++value) {
    const auto byte = static_cast<uint8_t>(value);
    const auto entry = tokens_.find(alphabet_character(byte));
    if (entry != tokens_.end()) bpe_.add_byte(byte, entry->second);
  }
}

std::optional<TokenId> MergeTexts::symbol_of(std::string_view text) {
  if (const auto entry = tokens_.find(text); entry != tokens_.end()) return entry->second;
  if (control_texts_.contains(text)) return std::nullopt;
  const auto [entry, added] = stand_ins_.try_emplace(std::string(text));
  if (added) entry->second = add_stand_in(text);
  return entry->second;
}

TokenId MergeTexts::add_stand_in(std::string_view text) {
  const std::string bytes = bytes_of_token_text(text);
  std::vector<TokenId> parts;
  for (const char byte : bytes) {
    const auto entry = tokens_.find(alphabet_character(static_cast<uint8_t>(byte)));
    if (entry != tokens_.end()) parts.push_back(entry->second);
  }
  const TokenId id = bpe_.add_stand_in(parts);
  // A byte without a token still merges into longer texts that are one.
  const auto first = static_cast<uint8_t>(bytes[0]);
  if (bytes.size() == 1 && alphabet_character(first) == text) bpe_.add_byte(first, id);
  return id;
}

class ByteLevelEncoder final : public TextEncoder {
 public:
  static Result<std::unique_ptr<TextEncoder>> create(const Vocabulary& vocabulary) {
    auto encoder = std::make_unique<ByteLevelEncoder>(vocabulary.merges.size());
    ASSIGN_OR_RETURN(encoder->pretokenizer_, Pretokenizer::create(vocabulary.pre));
    TRY(encoder->add_merges(vocabulary));
    if (encoder->pretokenizer_->ignore_merges()) encoder->add_whole_pieces(vocabulary);
    return std::unique_ptr<TextEncoder>(std::move(encoder));
  }

  explicit ByteLevelEncoder(size_t merge_count) : bpe_(merge_count) {}

  void encode(std::string_view text, bool at_start, std::vector<TokenId>& ids) const override;

 private:
  Status add_merges(const Vocabulary& vocabulary);
  void add_whole_pieces(const Vocabulary& vocabulary);
  void encode_pieces(const std::vector<std::string_view>& pieces, std::vector<TokenId>& ids) const;

  std::unique_ptr<Pretokenizer> pretokenizer_;
  Bpe bpe_;
  std::optional<TokenIndex> whole_pieces_;  // by bytes; only with ignore_merges
};

Status ByteLevelEncoder::add_merges(const Vocabulary& vocabulary) {
  MergeTexts texts(vocabulary, bpe_);
  for (size_t rank = 0; rank < vocabulary.merges.size(); ++rank) {
    const std::string& merge = vocabulary.merges[rank];
    const auto sides = sides_of(merge);
    if (!sides) {
      return error(Code::kBadFile, "merge {} is '{}', which is not two texts with a space between",
                   rank, merge.substr(0, 64));
    }
    const auto left = texts.symbol_of(sides->first);
    const auto right = texts.symbol_of(sides->second);
    const auto joined = texts.symbol_of(std::string(sides->first).append(sides->second));
    if (left && right && joined) {
      bpe_.add_merge(*left, *right, {static_cast<uint32_t>(rank), *joined});
    }
  }
  return Ok{};
}

void ByteLevelEncoder::add_whole_pieces(const Vocabulary& vocabulary) {
  whole_pieces_.emplace(vocabulary.tokens.size());
  for (TokenId id = 0; id < vocabulary.tokens.size(); ++id) {
    if (vocabulary.kinds[id] != TokenKind::kNormal) continue;
    whole_pieces_->add(bytes_of_token_text(vocabulary.tokens[id]), id);
  }
}

void ByteLevelEncoder::encode(std::string_view text, bool /*at_start*/,
                              std::vector<TokenId>& ids) const {
  std::vector<std::string_view> pieces;
  if (is_valid_utf8(text)) {
    pretokenizer_->split(text, pieces);
    encode_pieces(pieces, ids);
    return;
  }
  const LenientText lenient = read_leniently(text);
  pretokenizer_->split(lenient.shape, pieces);
  for (std::string_view& piece : pieces) {
    const auto begin = static_cast<size_t>(piece.data() - lenient.shape.data());
    piece = std::string_view(lenient.bytes).substr(begin, piece.size());
  }
  encode_pieces(pieces, ids);
}

void ByteLevelEncoder::encode_pieces(const std::vector<std::string_view>& pieces,
                                     std::vector<TokenId>& ids) const {
  std::vector<TokenId> scratch;
  for (const std::string_view piece : pieces) {
    const auto whole = whole_pieces_ ? whole_pieces_->find(piece) : std::nullopt;
    if (whole) {
      ids.push_back(*whole);
    } else {
      bpe_.encode(piece, ids, scratch);
    }
  }
}

}  // namespace

Result<std::unique_ptr<TextEncoder>> make_byte_level_encoder(const Vocabulary& vocabulary) {
  return ByteLevelEncoder::create(vocabulary);
}

}  // namespace pacer::text
