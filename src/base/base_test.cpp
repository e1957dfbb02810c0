// The small things: numbers for people, integer helpers, clocks.
#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/human.h"
#include "base/math.h"

namespace pacer {
namespace {

TEST(Human, BytesChangeUnitWhereTheNumberWouldGrowTooLong) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1024), "1.0 KiB");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes((1 << 20) - 1), "1.0 MiB");  // and not 1024.0 KiB
  EXPECT_EQ(human_bytes(uint64_t{123} << 30 | uint64_t{1} << 29), "123.5 GiB");
  EXPECT_EQ(human_bytes(~uint64_t{0}), "16.0 EiB");
}

TEST(Math, RoundsUpToWholeParts) {
  EXPECT_EQ(div_ceil(0, 16), 0);
  EXPECT_EQ(div_ceil(1, 16), 1);
  EXPECT_EQ(div_ceil(16, 16), 1);
  EXPECT_EQ(div_ceil(17, 16), 2);
  EXPECT_EQ(round_up(17, 16), 32);
  EXPECT_EQ(round_up(32, 16), 32);
}

TEST(Clock, AManualClockMovesOnlyWhenTold) {
  ManualClock clock;
  const TimePoint start = clock.now();
  EXPECT_EQ(clock.now(), start);
  clock.advance(std::chrono::milliseconds(1500));
  EXPECT_EQ(seconds(clock.now() - start), 1.5);
}

TEST(Clock, TheSystemClockNeverGoesBack) {
  const SystemClock clock;
  TimePoint last = clock.now();
  for (int i = 0; i < 1000; ++i) {
    const TimePoint next = clock.now();
    ASSERT_GE(next, last);
    last = next;
  }
}

}  // namespace
}  // namespace pacer
