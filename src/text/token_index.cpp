#include "text/token_index.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "base/check.h"

namespace pacer::text {
namespace {

uint64_t hash_of(std::string_view text) {
  return std::hash<std::string_view>()(text);
}

}  // namespace

TokenIndex::TokenIndex(size_t token_count)
    : slots_(std::bit_ceil(2 * token_count + 2)), may_be_here_(8 * slots_.size()) {}

size_t TokenIndex::slot_of(std::string_view text, uint64_t hash) const {
  size_t slot = hash & (slots_.size() - 1);
  for (;; slot = (slot + 1) & (slots_.size() - 1)) {
    const Slot& here = slots_[slot];
    if (here.size == 0) return slot;
    if (here.hash == static_cast<uint32_t>(hash >> 32) && here.size == text.size() &&
        std::string_view(texts_).substr(here.begin, here.size) == text) {
      return slot;
    }
  }
}

void TokenIndex::add(std::string_view text, TokenId id) {
  if (text.empty()) return;
  CHECK(2 * size_ < slots_.size(), "more tokens than the {} announced", slots_.size() / 2);
  const uint64_t hash = hash_of(text);
  Slot& slot = slots_[slot_of(text, hash)];
  if (slot.size != 0) return;
  CHECK(texts_.size() + text.size() <= UINT32_MAX, "token texts of {} bytes", texts_.size());
  slot = {static_cast<uint32_t>(hash >> 32), static_cast<uint32_t>(texts_.size()),
          static_cast<uint32_t>(text.size()), id};
  may_be_here_[hash & (may_be_here_.size() - 1)] = true;
  texts_.append(text);
  size_ += 1;
  text_size_max_ = std::max(text_size_max_, text.size());
}

std::optional<TokenId> TokenIndex::find(std::string_view text) const {
  if (text.empty() || text.size() > text_size_max_) return std::nullopt;
  const uint64_t hash = hash_of(text);
  if (!may_be_here_[hash & (may_be_here_.size() - 1)]) return std::nullopt;
  const Slot& slot = slots_[slot_of(text, hash)];
  if (slot.size == 0) return std::nullopt;
  return slot.id;
}

}  // namespace pacer::text
