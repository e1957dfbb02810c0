#include "text/bpe.h"

#include <bit>

#include "base/check.h"
#include "base/rng.h"  // mix64

namespace pacer::text {
namespace {

// No vocabulary and no list of merges is that large (vocabulary.cpp).
constexpr TokenId kNoToken = UINT32_MAX;
constexpr TokenId kFirstStandIn = 1u << 31;

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

TokenId Bpe::add_stand_in(std::span<const TokenId> parts) {
  const TokenId id = kFirstStandIn + static_cast<TokenId>(part_ends_.size());
  CHECK(id >= kFirstStandIn && id < kNoToken, "{} stand-ins are too many", part_ends_.size());
  parts_.insert(parts_.end(), parts.begin(), parts.end());
  part_ends_.push_back(parts_.size());
  return id;
}

void Bpe::append_stand_in(TokenId id, std::vector<TokenId>& out) const {
  const size_t index = id - kFirstStandIn;
  const size_t begin = index == 0 ? 0 : part_ends_[index - 1];
  for (size_t i = begin; i < part_ends_[index]; ++i) out.push_back(parts_[i]);
}

void Bpe::encode(std::string_view piece, std::vector<TokenId>& out,
                 std::vector<TokenId>& scratch) const {
  scratch.clear();
  for (const char c : piece) {
    scratch.push_back(byte_tokens_[static_cast<uint8_t>(c)].value_or(kNoToken));
  }
  merge_symbols(scratch, [&](TokenId left, TokenId right) { return merges_.find(left, right); });
  for (const TokenId id : scratch) {
    if (id < kFirstStandIn) {
      out.push_back(id);
    } else if (id != kNoToken) {
      append_stand_in(id, out);
    }
  }
}

}  // namespace pacer::text
