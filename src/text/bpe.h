// Byte-pair encoding of one piece: start from bytes, and again and again join the pair whose merge
// comes first in the model's list; of equal pairs the leftmost.
//
// Called by byte_level for each piece of the pre-tokenizer. Read-only after add_*, so thread-safe.
// No cache: a word costs well below a microsecond.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/token.h"
#include "text/merge.h"

namespace pacer::text {

// Which pairs join, how early, and into what.
class MergeTable {
 public:
  using Merge = Joined<TokenId>;

  explicit MergeTable(size_t merge_count);
  void add(TokenId left, TokenId right,
           Merge merge);  // a pair that is there already keeps its merge
  Joined<TokenId> find(TokenId left, TokenId right) const;

 private:
  struct Slot {
    uint64_t pair = kEmpty;  // left << 32 | right
    Merge merge{};
  };
  static constexpr uint64_t kEmpty = ~uint64_t{0};

  size_t first_slot(uint64_t pair) const;

  std::vector<Slot> slots_;  // a power of two, at most half full, linear probing
};

class Bpe {
 public:
  explicit Bpe(size_t merge_count) : merges_(merge_count) {}

  void add_byte(uint8_t byte, TokenId id) { byte_tokens_[byte] = id; }
  void add_merge(TokenId left, TokenId right, MergeTable::Merge merge) {
    merges_.add(left, right, merge);
  }

  // A text that merges and is merged, but is no token: in the end it comes out as `parts`.
  TokenId add_stand_in(std::span<const TokenId> parts);

  // Appends the tokens of `piece`. A byte that has no token is left out in the end; nothing merges
  // across it. Real vocabularies lack only bytes that UTF-8 never has or that no training text had.
  void encode(std::string_view piece, std::vector<TokenId>& out,
              std::vector<TokenId>& scratch) const;

 private:
  void append_stand_in(TokenId id, std::vector<TokenId>& out) const;

  std::array<std::optional<TokenId>, 256> byte_tokens_;
  MergeTable merges_;
  std::vector<TokenId> parts_;     // of all stand-ins, back to back
  std::vector<size_t> part_ends_;  // by stand-in
};

}  // namespace pacer::text
