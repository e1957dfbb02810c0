// Block manager: which KV blocks are taken. Deals in ids and counts only; the bytes live in
// kv/storage.
//
// A block holds the keys and values of kBlockTokens tokens of one sequence, in every layer. Lack of
// blocks is a normal answer (nothing is taken), giving back a block twice is a bug of ours. Not
// thread-safe: called only from the engine thread. Allocates memory only in the constructor.
#pragma once

#include <cstdint>
#include <vector>

namespace pacer::kv {

constexpr uint32_t kBlockTokens = 16;

enum class BlockId : uint32_t {};

using BlockTable =
    std::vector<BlockId>;  // block i holds tokens [i * kBlockTokens, (i + 1) * kBlockTokens)

constexpr uint32_t index(BlockId id) {
  return static_cast<uint32_t>(id);
}
uint32_t blocks_for_tokens(uint32_t tokens);

class BlockManager {
 public:
  explicit BlockManager(uint32_t count);

  // Appends `count` free blocks to the table, or takes none and returns false.
  [[nodiscard]] bool try_extend(BlockTable& table, uint32_t count);
  // Gives back all blocks of the table and empties it.
  void release(BlockTable& table);

  uint32_t count() const { return static_cast<uint32_t>(taken_.size()); }
  uint32_t free_count() const { return static_cast<uint32_t>(free_.size()); }
  uint32_t used_count() const { return count() - free_count(); }

 private:
  std::vector<BlockId>
      free_;  // a stack: the block given back last is warm in the cache and is taken first
  std::vector<bool> taken_;  // [count]
};

}  // namespace pacer::kv
