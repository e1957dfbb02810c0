#include "text/bpe.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace pacer::text {
namespace {

std::vector<TokenId> merged(bool is_long, const MergeTable& table, std::vector<TokenId> tokens) {
  const auto find = [&](TokenId left, TokenId right) { return table.find(left, right); };
  if (is_long) {
    merge_long(tokens, find);
  } else {
    merge_short(tokens, find);
  }
  return tokens;
}

TEST(MergeTable, FindsWhatWasAddedAndNothingElse) {
  MergeTable table(3);
  table.add(1, 2, {0, 10});
  table.add(2, 1, {1, 11});
  table.add(1, 2, {2, 12});  // again: the first, better rank stays
  EXPECT_EQ(table.find(1, 2).rank, 0u);
  EXPECT_EQ(table.find(1, 2).symbol, 10u);
  EXPECT_EQ(table.find(2, 1).symbol, 11u);
  EXPECT_EQ(table.find(1, 1).rank, kNoRank);
  EXPECT_EQ(MergeTable(0).find(0, 0).rank, kNoRank);
}

TEST(Merge, TheEarlierMergeGoesFirstAndTheLeftmostOfEquals) {
  // a=0 b=1 c=2, bc=3 (rank 0), ab=4 (rank 1), aa=5 (rank 2)
  MergeTable table(3);
  table.add(1, 2, {0, 3});
  table.add(0, 1, {1, 4});
  table.add(0, 0, {2, 5});
  for (const bool merge : {false, true}) {
    EXPECT_EQ(merged(merge, table, {0, 1, 2}), (std::vector<TokenId>{0, 3}));
    EXPECT_EQ(merged(merge, table, {0, 1, 0}), (std::vector<TokenId>{4, 0}));
    EXPECT_EQ(merged(merge, table, {0, 0, 0}), (std::vector<TokenId>{5, 0}));
    EXPECT_EQ(merged(merge, table, {2}), (std::vector<TokenId>{2}));
    EXPECT_EQ(merged(merge, table, {}), (std::vector<TokenId>{}));
  }
}

TEST(Merge, BothWaysGiveTheSameTokens) {
  const auto seed = std::random_device{}();
  std::mt19937 rng(seed);
  for (int round = 0; round < 500; ++round) {
    // Any table will do, sensible or not: what counts is the order in which it is applied.
    const uint32_t token_count = 3 + rng() % 8;
    MergeTable table(40);
    for (uint32_t rank = 0; rank < 40; ++rank) {
      table.add(rng() % token_count, rng() % token_count,
                {rank, static_cast<TokenId>(rng() % token_count)});
    }
    std::vector<TokenId> tokens(rng() % (kShortSymbols + 1));
    for (TokenId& token : tokens) token = rng() % token_count;
    ASSERT_EQ(merged(false, table, tokens), merged(true, table, tokens))
        << "seed " << seed << " round " << round;
  }
}

TEST(Bpe, ABigPieceOfOneLetterEndsInTokensOfTheLargestPowerOfTwo) {
  // Token k is 2^k letters. Quadratic work would be 10^12 steps here: the test would not end.
  Bpe bpe(10);
  bpe.add_byte('a', 0);
  for (uint32_t k = 0; k < 10; ++k) bpe.add_merge(k, k, {k, k + 1});
  std::vector<TokenId> ids, scratch;
  bpe.encode(std::string(1 << 20, 'a'), ids, scratch);
  EXPECT_EQ(ids, std::vector<TokenId>(1 << 10, 10));
}

TEST(Bpe, BytesWithoutATokenAreLeftOutAndKeepTheirNeighboursApart) {
  Bpe bpe(1);
  bpe.add_byte('a', 0);
  bpe.add_byte('b', 1);
  bpe.add_merge(0, 1, {0, 2});
  std::vector<TokenId> ids, scratch;
  bpe.encode("a?bab?", ids, scratch);
  EXPECT_EQ(ids, (std::vector<TokenId>{0, 1, 2}));
}

}  // namespace
}  // namespace pacer::text
