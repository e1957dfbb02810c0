#include "base/rng.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace pacer {
namespace {

// The published SplitMix64 of seed 1234567 adds the golden gamma before each mix: mix64(seed + n *
// gamma).
TEST(Rng, MixesAsSplitMix64Does) {
  constexpr uint64_t kGamma = 0x9e3779b97f4a7c15ull;
  constexpr uint64_t kExpected[] = {6457827717110365317ull, 3203168211198807973ull,
                                    9817491932198370423ull, 4593380528125082431ull,
                                    16408922859458223821ull};
  uint64_t state = 1234567;
  for (uint64_t expected : kExpected) {
    EXPECT_EQ(mix64(state), expected);
    state += kGamma;
  }
}

TEST(Rng, TheSamePlaceGivesTheSameNumber) {
  EXPECT_EQ(random_bits(7, 3), random_bits(7, 3));
  static_assert(random_bits(1, 0) != random_bits(0, 1));
  Rng stream(7);
  for (uint64_t position = 0; position < 10; ++position) {
    EXPECT_EQ(stream.next(), random_bits(7, position));
  }
}

// Small seeds at small positions are what requests use: none may collide.
TEST(Rng, NeighbouringSeedsAndPositionsDiffer) {
  std::set<uint64_t> seen;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    for (uint64_t position = 0; position < 200; ++position)
      seen.insert(random_bits(seed, position));
  }
  EXPECT_EQ(seen.size(), 40'000u);
}

TEST(Rng, UniformStaysBelowOneAndFillsTheRangeEvenly) {
  constexpr uint64_t kSeed = 99;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  constexpr int kDraws = 100'000;
  constexpr int kBins = 10;
  Rng rng(kSeed);
  std::vector<int> bins(kBins);
  for (int i = 0; i < kDraws; ++i) {
    const double u = rng.uniform();
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    ++bins[static_cast<size_t>(u * kBins)];
  }
  // Each bin is binomial, standard deviation 95: five of them is a chance of one in a million.
  for (int count : bins) EXPECT_NEAR(count, kDraws / kBins, 475);
}

TEST(Rng, BelowReachesEveryNumberAndNoOther) {
  Rng rng(3);
  std::set<uint64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(rng.below(7));
  EXPECT_EQ(seen, (std::set<uint64_t>{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(rng.below(1), 0u);
}

}  // namespace
}  // namespace pacer
