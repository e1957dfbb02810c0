#include "base/check.h"

#include <gtest/gtest.h>

namespace pacer {
namespace {

TEST(Check, WhatHoldsPassesAndFormatsNothing) {
  int formatted = 0;
  const auto count = [&] { return ++formatted; };
  CHECK(1 + 1 == 2, "never said {}", count());
  EXPECT_EQ(formatted, 0);
}

TEST(CheckDeathTest, WhatDoesNotHoldAbortsWithPlaceConditionAndValues) {
  const int blocks = 3;
  EXPECT_DEATH(CHECK(blocks == 4, "{} blocks, expected {}", blocks, 4),
               "check_test\\.cpp:[0-9]+: CHECK failed: blocks == 4: 3 blocks, expected 4");
}

// The macro is one statement: it must not swallow an else.
TEST(Check, FitsBetweenIfAndElse) {
  bool other = false;
  const int two = 2;
  if (two == 3)
    CHECK(false, "not here");
  else
    other = true;
  EXPECT_TRUE(other);
}

}  // namespace
}  // namespace pacer
