#include "text/bpe.h"

#include <bit>

#include "base/rng.h"  // mix64

namespace pacer::text {
namespace {

constexpr TokenId kNoToken = UINT32_MAX;  // no vocabulary is that large

}  // namespace

MergeTable::MergeTable(size_t merge_count) : slots_(std::bit_ceil(2 * merge_count + 2)) {}

size_t MergeTable::first_slot(uint64_t pair) const {
  return mix64(pair) & (slots_.size() - 1);
}

void MergeTable::add(TokenId left, TokenId right, Merge merge) {
  const uint64_t pair = uint64_t{left} << 32 | right;
  size_t slot = first_slot(pair);
  while (slots_[slot].pair != kEmpty && slots_[slot].pair != pair) {
    slot = (slot + 1) & (slots_.size() - 1);
  }
  if (slots_[slot].pair == kEmpty) slots_[slot] = {pair, merge};
}

Joined<TokenId> MergeTable::find(TokenId left, TokenId right) const {
  const uint64_t pair = uint64_t{left} << 32 | right;
  for (size_t slot = first_slot(pair);; slot = (slot + 1) & (slots_.size() - 1)) {
    if (slots_[slot].pair == pair) return slots_[slot].merge;
    if (slots_[slot].pair == kEmpty) return {};
  }
}

void Bpe::encode(std::string_view piece, std::vector<TokenId>& out,
                 std::vector<TokenId>& scratch) const {
  scratch.clear();
  for (const char c : piece) {
    scratch.push_back(byte_tokens_[static_cast<uint8_t>(c)].value_or(kNoToken));
  }
  merge_symbols(scratch, [&](TokenId left, TokenId right) { return merges_.find(left, right); });
  for (const TokenId id : scratch) {
    if (id != kNoToken) out.push_back(id);
  }
}

}  // namespace pacer::text
