// Which token has exactly this text. Made for many look-ups of short texts in a large vocabulary:
// one array of slots, one string with all texts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/token.h"

namespace pacer::text {

class TokenIndex {
 public:
  explicit TokenIndex(size_t token_count);

  // At most `token_count` times. Of two with the same text the first added counts; an empty one is
  // never found.
  void add(std::string_view text, TokenId id);
  std::optional<TokenId> find(std::string_view text) const;

  size_t size() const { return size_; }
  size_t text_size_max() const { return text_size_max_; }

 private:
  struct Slot {
    uint32_t hash = 0;
    uint32_t begin = 0;  // in texts_
    uint32_t size = 0;   // 0: a free slot
    TokenId id = 0;
  };

  // The slot of this text, or the free one where it would be.
  size_t slot_of(std::string_view text, uint64_t hash) const;

  std::vector<Slot> slots_;  // a power of two, at most half full, linear probing
  std::vector<bool>
      may_be_here_;  // by hash: most look-ups find nothing, and need not leave the cache
  std::string texts_;
  size_t size_ = 0;
  size_t text_size_max_ = 0;
};

}  // namespace pacer::text
