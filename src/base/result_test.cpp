#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace pacer {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return error(Code::kInvalidArgument, "{} is odd", n);
  return n / 2;
}

Status refuse_negative(int n) {
  if (n < 0) return error(Code::kTooLarge, "{} is negative", n);
  return Ok{};
}

// Counts how far it came, to show that an error leaves at once.
Result<int> quarter(int n, int* steps) {
  TRY(refuse_negative(n));
  ++*steps;
  ASSIGN_OR_RETURN(const int once, half(n));
  ++*steps;
  ASSIGN_OR_RETURN(const int twice, half(once));
  ++*steps;
  return twice;
}

TEST(Result, HoldsEitherAValueOrAnError) {
  const Result<int> good = half(8);
  ASSERT_TRUE(good);
  EXPECT_TRUE(good.ok());
  EXPECT_EQ(*good, 4);
  const Result<int> bad = half(7);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, Code::kInvalidArgument);
  EXPECT_EQ(bad.error().message, "7 is odd");
  EXPECT_EQ(bad.error().param, "");
}

TEST(Result, MacrosLeaveWithTheFirstError) {
  int steps = 0;
  EXPECT_EQ(*quarter(12, &steps), 3);
  EXPECT_EQ(steps, 3);
  steps = 0;
  EXPECT_EQ(quarter(-4, &steps).error().message, "-4 is negative");
  EXPECT_EQ(steps, 0);
  EXPECT_EQ(quarter(6, &steps).error().message, "3 is odd");
  EXPECT_EQ(steps, 2);
}

TEST(Result, CarriesWhatCanOnlyBeMoved) {
  Result<std::unique_ptr<std::string>> made = std::make_unique<std::string>("x");
  ASSERT_TRUE(made);
  EXPECT_EQ(**made, "x");
  EXPECT_EQ((*made)->size(), 1u);
  const std::unique_ptr<std::string> taken = *std::move(made);
  EXPECT_EQ(*taken, "x");
}

TEST(Result, AValueThatIsFalseIsStillAValue) {
  const Result<bool> no = false;
  ASSERT_TRUE(no);
  EXPECT_FALSE(*no);
}

TEST(ResultDeathTest, LookingWithoutAskingIsABug) {
  EXPECT_DEATH((void)*half(7), "value\\(\\) of an error: 7 is odd");
  EXPECT_DEATH((void)half(8).error(), "error\\(\\) of a value");
}

}  // namespace
}  // namespace pacer
