// Finds control and user-defined tokens in text: at the first place where one occurs, the longest
// one there.
//
// One tree of bytes over all their texts, built once; find() is thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/token.h"

namespace pacer::text {

class SpecialTokens {
 public:
  // `is_control`: found only where control tokens are wanted. Of two with the same text the first
  // added counts.
  void add(std::string_view text, TokenId id, bool is_control);

  struct Found {
    size_t position;
    size_t size;
    TokenId id;
  };
  struct Want {
    bool control = true;                // also control tokens
    bool one_character_control = true;  // also those of a single character
  };
  std::optional<Found> find(std::string_view text, size_t from, Want want) const;

 private:
  struct Node {
    std::optional<TokenId> user_defined;
    std::optional<TokenId> control;
    bool one_character = false;
  };

  std::vector<Node> nodes_ = {Node{}};               // 0: the empty text
  std::unordered_map<uint64_t, uint32_t> children_;  // node << 8 | byte
  std::array<bool, 256> is_first_byte_{};
};

// The text with the guards taken out again that broke up special tokens in it (chat_template.h).
std::string without(std::string_view text, std::string_view guard);

}  // namespace pacer::text
