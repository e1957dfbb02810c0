#include "kv/block_manager.h"

#include <gtest/gtest.h>

#include <set>

#include "base/rng.h"
#include "base/test_seed.h"

namespace pacer::kv {
namespace {

TEST(BlockManager, HandsOutEveryBlockOnce) {
  BlockManager blocks(8);
  BlockTable a, b;
  ASSERT_TRUE(blocks.try_extend(a, 5));
  ASSERT_TRUE(blocks.try_extend(b, 3));
  std::set<BlockId> seen(a.begin(), a.end());
  seen.insert(b.begin(), b.end());
  EXPECT_EQ(seen.size(), 8u);
  EXPECT_EQ(blocks.free_count(), 0u);
  EXPECT_EQ(blocks.used_count(), 8u);
}

TEST(BlockManager, TakesNothingWhenThereAreTooFew) {
  BlockManager blocks(4);
  BlockTable a;
  ASSERT_TRUE(blocks.try_extend(a, 3));
  const BlockTable before = a;
  EXPECT_FALSE(blocks.try_extend(a, 2));
  EXPECT_EQ(a, before);
  EXPECT_EQ(blocks.free_count(), 1u);
  EXPECT_TRUE(blocks.try_extend(a, 1));
}

TEST(BlockManager, ReleasedBlocksCanBeTakenAgain) {
  BlockManager blocks(2);
  BlockTable a;
  ASSERT_TRUE(blocks.try_extend(a, 2));
  blocks.release(a);
  EXPECT_TRUE(a.empty());
  EXPECT_EQ(blocks.free_count(), 2u);
  EXPECT_TRUE(blocks.try_extend(a, 2));
}

TEST(BlockManagerDeathTest, FreeingTwiceAborts) {
  BlockManager blocks(2);
  BlockTable a;
  ASSERT_TRUE(blocks.try_extend(a, 1));
  BlockTable copy = a;
  blocks.release(a);
  EXPECT_DEATH(blocks.release(copy), "freeing block 0 twice");
}

TEST(BlockManager, TokensRoundUpToBlocks) {
  EXPECT_EQ(blocks_for_tokens(0), 0u);
  EXPECT_EQ(blocks_for_tokens(1), 1u);
  EXPECT_EQ(blocks_for_tokens(16), 1u);
  EXPECT_EQ(blocks_for_tokens(17), 2u);
}

TEST(BlockManager, NoBlockHasTwoOwnersInAnyHistory) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Rng rng(seed);
  BlockManager blocks(32);
  std::vector<BlockTable> tables(6);
  for (int i = 0; i < 2000; ++i) {
    BlockTable& table = tables[rng.below(tables.size())];
    if (rng.below(3) == 0) {
      blocks.release(table);
    } else {
      (void)blocks.try_extend(table, static_cast<uint32_t>(rng.below(6)));
    }
    std::set<BlockId> owned;
    size_t total = 0;
    for (const BlockTable& t : tables) {
      owned.insert(t.begin(), t.end());
      total += t.size();
    }
    ASSERT_EQ(owned.size(), total) << "a block is in two tables";
    ASSERT_EQ(total, blocks.used_count());
  }
}

}  // namespace
}  // namespace pacer::kv
