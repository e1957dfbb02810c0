#include "kv/storage.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

namespace pacer::kv {
namespace {

struct Free {
  void operator()(std::byte* p) const { std::free(p); }
};
std::unique_ptr<std::byte, Free> aligned_bytes(size_t size) {
  return std::unique_ptr<std::byte, Free>(static_cast<std::byte*>(std::aligned_alloc(64, size)));
}

TEST(Storage, BlocksOfAllLayersTileTheMemoryExactly) {
  const KvShape shape{.layers = 3, .kv_heads = 2, .head_dim = 8};
  const uint32_t count = 5;
  const size_t size = count * shape.block_bytes();
  auto memory = aligned_bytes(size);
  Storage storage(shape, count, {memory.get(), size});

  auto* expected = reinterpret_cast<uint16_t*>(memory.get());
  for (uint32_t layer = 0; layer < shape.layers; ++layer) {
    for (uint32_t id = 0; id < count; ++id) {
      EXPECT_EQ(storage.block(layer, BlockId{id}), expected);
      expected += shape.layer_values();
    }
  }
  EXPECT_EQ(reinterpret_cast<std::byte*>(expected), memory.get() + size);
}

TEST(Storage, AHeadOfABlockIsReachedFromBlockZeroByTheStride) {
  const KvShape shape{.layers = 2, .kv_heads = 3, .head_dim = 16};
  const size_t size = 4 * shape.block_bytes();
  auto memory = aligned_bytes(size);
  Storage storage(shape, 4, {memory.get(), size});
  EXPECT_EQ(storage.layer_head(1, 2) + 3 * storage.block_stride(),
            storage.block(1, BlockId{3}) + 2 * shape.head_values());
}

TEST(StorageDeathTest, ABlockOutsideThePoolAborts) {
  const KvShape shape{.layers = 1, .kv_heads = 1, .head_dim = 8};
  auto memory = aligned_bytes(2 * shape.block_bytes());
  Storage storage(shape, 2, {memory.get(), 2 * shape.block_bytes()});
  EXPECT_DEATH(storage.block(0, BlockId{2}), "block 2 of 2");
  EXPECT_DEATH(Storage(shape, 3, {memory.get(), 2 * shape.block_bytes()}), "KV blocks");
}

}  // namespace
}  // namespace pacer::kv
