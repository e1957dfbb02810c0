// The whole text is one row of characters in principle. In practice two neighbours that no token
// has side by side can never be in one token, so the row is cut there first: into words, mostly.
// The ids are the same and a text of a megabyte is many small tasks instead of a large one.

#include "text/sentence_piece.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "base/rng.h"  // mix64
#include "text/merge.h"
#include "text/token_index.h"
#include "text/token_text.h"

namespace pacer::text {
namespace {

// How many bytes are taken for one character, by the first one. Ill-formed text needs no care here:
// what comes of it is no token and is written as bytes.
size_t character_size(std::string_view text) {
  constexpr uint8_t kSizes[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4};
  return std::min<size_t>(kSizes[static_cast<uint8_t>(text[0]) >> 4], text.size());
}

uint64_t number_of(std::string_view character) {
  uint64_t number = 0;
  for (const char byte : character) number = number << 8 | static_cast<uint8_t>(byte);
  return number;
}

// Which two characters stand side by side in some token. May say yes for others too (it keeps only
// a bit for each hash), which costs time and nothing else.
class Neighbours {
 public:
  explicit Neighbours(size_t token_count) : bits_(std::bit_ceil(16 * token_count + 64)) {}

  void add_token(std::string_view text) {
    for (uint64_t previous = 0; !text.empty();) {
      const size_t size = character_size(text);
      const uint64_t character = number_of(text.substr(0, size));
      bits_[place_of(previous, character)] = true;
      previous = character;
      text.remove_prefix(size);
    }
  }
  bool may_join(uint64_t left, uint64_t right) const { return bits_[place_of(left, right)]; }

 private:
  size_t place_of(uint64_t left, uint64_t right) const {
    return mix64(left << 32 | right) & (bits_.size() - 1);
  }
  std::vector<bool> bits_;  // a power of two
};

struct Symbol {
  uint32_t begin, size;  // in the text
  std::optional<TokenId> id;
};

class SentencePieceEncoder final : public TextEncoder {
 public:
  explicit SentencePieceEncoder(const Vocabulary& vocabulary);

  void encode(std::string_view text, bool at_start, std::vector<TokenId>& ids) const override;

 private:
  void encode_row(std::string_view text, std::vector<Symbol>& row, std::vector<TokenId>& ids) const;
  void append_bytes(std::string_view bytes, std::vector<TokenId>& ids) const;

  bool space_prefix_;
  TokenIndex index_;
  std::vector<uint32_t> ranks_;  // by id; equal for equal scores
  Neighbours neighbours_;
  std::array<std::optional<TokenId>, 256> byte_tokens_;
  std::optional<TokenId> unknown_;
};

std::vector<uint32_t> ranks_of(const std::vector<float>& scores) {
  std::vector<TokenId> order(scores.size());
  std::iota(order.begin(), order.end(), TokenId{0});
  std::sort(order.begin(), order.end(),
            [&](TokenId a, TokenId b) { return scores[a] > scores[b]; });
  std::vector<uint32_t> ranks(scores.size());
  uint32_t rank = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && scores[order[i]] < scores[order[i - 1]]) ++rank;
    ranks[order[i]] = rank;
  }
  return ranks;
}

SentencePieceEncoder::SentencePieceEncoder(const Vocabulary& vocabulary)
    : space_prefix_(vocabulary.add_space_prefix),
      index_(vocabulary.tokens.size()),
      ranks_(ranks_of(vocabulary.scores)),
      neighbours_(vocabulary.tokens.size()),
      unknown_(vocabulary.unknown) {
  for (TokenId id = 0; id < vocabulary.tokens.size(); ++id) {
    const std::string& text = vocabulary.tokens[id];
    const TokenKind kind = vocabulary.kinds[id];
    // Control tokens and byte tokens are not found by what they are called.
    if (is_special_kind(kind)) continue;
    if (kind == TokenKind::kByte) {
      if (const auto byte = byte_of_token_text(text)) byte_tokens_[*byte] = id;
      continue;
    }
    index_.add(text, id);
    neighbours_.add_token(text);
  }
}

void SentencePieceEncoder::encode(std::string_view text, bool at_start,
                                  std::vector<TokenId>& ids) const {
  std::string stored;
  stored.reserve(text.size() + text.size() / 2);
  if (space_prefix_ && at_start) stored += kStoredSpace;
  for (const char byte : text) {
    if (byte == ' ') {
      stored += kStoredSpace;
    } else {
      stored.push_back(byte);
    }
  }
  std::vector<Symbol> row;
  uint64_t previous = 0;
  for (size_t at = 0; at < stored.size();) {
    const auto rest = std::string_view(stored).substr(at);
    const size_t size = character_size(rest);
    const uint64_t character = number_of(rest.substr(0, size));
    if (!row.empty() && !neighbours_.may_join(previous, character)) encode_row(stored, row, ids);
    row.push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(size), {}});
    previous = character;
    at += size;
  }
  encode_row(stored, row, ids);
}

// Leaves `row` empty.
void SentencePieceEncoder::encode_row(std::string_view text, std::vector<Symbol>& row,
                                      std::vector<TokenId>& ids) const {
  merge_symbols(row, [&](const Symbol& left, const Symbol& right) -> Joined<Symbol> {
    const uint32_t size = left.size + right.size;
    const auto id = index_.find(text.substr(left.begin, size));
    if (!id) return {};
    return {ranks_[*id], {left.begin, size, id}};
  });
  for (const Symbol& symbol : row) {
    const std::string_view part = text.substr(symbol.begin, symbol.size);
    const auto id = symbol.id ? symbol.id : index_.find(part);  // a character alone: not yet asked
    if (id) {
      ids.push_back(*id);
    } else {
      append_bytes(part, ids);
    }
  }
  row.clear();
}

// Without byte tokens: one unknown token for the character, or nothing at all.
void SentencePieceEncoder::append_bytes(std::string_view bytes, std::vector<TokenId>& ids) const {
  const size_t before = ids.size();
  for (const char byte : bytes) {
    if (const auto id = byte_tokens_[static_cast<uint8_t>(byte)]) ids.push_back(*id);
  }
  if (ids.size() == before && unknown_) ids.push_back(*unknown_);
}

}  // namespace

std::unique_ptr<TextEncoder> make_sentence_piece_encoder(const Vocabulary& vocabulary) {
  return std::make_unique<SentencePieceEncoder>(vocabulary);
}

}  // namespace pacer::text
