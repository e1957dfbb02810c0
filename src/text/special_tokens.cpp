#include "text/special_tokens.h"

#include <algorithm>

#include "text/utf8.h"

namespace pacer::text {

void SpecialTokens::add(std::string_view text, TokenId id, bool is_control) {
  if (text.empty()) return;
  uint32_t node = 0;
  for (const char c : text) {
    const uint64_t edge = uint64_t{node} << 8 | static_cast<uint8_t>(c);
    const auto fresh = static_cast<uint32_t>(nodes_.size());
    const auto [child, added] = children_.try_emplace(edge, fresh);
    if (added) nodes_.emplace_back();
    node = child->second;
  }
  is_first_byte_[static_cast<uint8_t>(text[0])] = true;
  std::optional<TokenId>& slot = is_control ? nodes_[node].control : nodes_[node].user_defined;
  if (!slot) slot = id;
  nodes_[node].one_character = next_utf8(text).size == text.size();
}

std::optional<SpecialTokens::Found> SpecialTokens::find(std::string_view text, size_t from,
                                                        Want want) const {
  for (size_t position = from; position < text.size(); ++position) {
    if (!is_first_byte_[static_cast<uint8_t>(text[position])]) continue;
    std::optional<Found> longest;
    uint32_t node = 0;
    for (size_t end = position; end < text.size(); ++end) {
      const auto child = children_.find(uint64_t{node} << 8 | static_cast<uint8_t>(text[end]));
      if (child == children_.end()) break;
      node = child->second;
      const Node& here = nodes_[node];
      const bool take_control =
          here.control && want.control && (want.one_character_control || !here.one_character);
      const size_t size = end + 1 - position;
      if (take_control) {
        longest = Found{position, size, *here.control};
      } else if (here.user_defined) {
        longest = Found{position, size, *here.user_defined};
      }
    }
    if (longest) return longest;
  }
  return std::nullopt;
}

std::string without(std::string_view text, std::string_view guard) {
  if (guard.empty()) return std::string(text);
  std::string out;
  out.reserve(text.size());
  for (size_t from = 0; from < text.size();) {
    const size_t at = std::min(text.find(guard, from), text.size());
    out.append(text.substr(from, at - from));
    from = at + guard.size();
  }
  return out;
}

}  // namespace pacer::text
