#include "text/byte_level.h"

#include <array>
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
  for (unsigned byte = 0; byte < 256; ++byte) {
    const auto entry = by_text.find(alphabet_character(static_cast<uint8_t>(byte)));
    if (entry != by_text.end()) bpe_.add_byte(static_cast<uint8_t>(byte), entry->second);
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
    if (!has_control) bpe_.add_merge(ids[0], ids[1], {static_cast<uint32_t>(rank), ids[2]});
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
