#include "kv/block_manager.h"

#include "base/check.h"
#include "base/math.h"

namespace pacer::kv {

uint32_t blocks_for_tokens(uint32_t tokens) {
  return div_ceil(tokens, kBlockTokens);
}

BlockManager::BlockManager(uint32_t count) : taken_(count, false) {
  free_.reserve(count);
  for (uint32_t i = count; i > 0; --i) free_.push_back(BlockId{i - 1});
}

bool BlockManager::try_extend(BlockTable& table, uint32_t count) {
  if (count > free_.size()) return false;
  for (uint32_t i = 0; i < count; ++i) {
    const BlockId id = free_.back();
    CHECK(!taken_[index(id)], "block {} is on the free list and taken", index(id));
    free_.pop_back();
    taken_[index(id)] = true;
    table.push_back(id);
  }
  return true;
}

void BlockManager::release(BlockTable& table) {
  for (const BlockId id : table) {
    CHECK(index(id) < taken_.size(), "freeing block {} of {}", index(id), taken_.size());
    CHECK(taken_[index(id)], "freeing block {} twice", index(id));
    taken_[index(id)] = false;
    free_.push_back(id);
  }
  table.clear();
}

}  // namespace pacer::kv
