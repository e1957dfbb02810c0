#include "tensor/reference_quant.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "tensor/code_block.h"

namespace pacer::tensor {
namespace {

std::vector<float> round_trip(DType dtype, const std::vector<float>& values) {
  const std::vector<std::byte> bytes = quantize(dtype, values);
  std::vector<float> back(values.size());
  dequantize(dtype, bytes.data(), values.size(), back.data());
  return back;
}

std::vector<float> random_values(uint64_t seed, size_t count) {
  Rng rng(seed);
  std::vector<float> values(count);
  for (float& v : values) v = static_cast<float>(rng.uniform() * 4 - 2);
  return values;
}

constexpr DType kAll[] = {DType::kF32,  DType::kF16,  DType::kBF16, DType::kQ4_0,  DType::kQ4_1,
                          DType::kQ5_0, DType::kQ5_1, DType::kQ8_0, DType::kQ2K,   DType::kQ3K,
                          DType::kQ4K,  DType::kQ5K,  DType::kQ6K,  DType::kIQ4NL, DType::kIQ4XS};

// Largest error that a block may have, as a share of the largest magnitude in it. For values of
// both signs:
//   half a step of the codes (a whole one at the end that they do not reach: Q4_0's +8),
// plus, of formats whose scales are small integers:
//   the codes' whole range times half an integer, in counts of the largest (scale), and the same of
//   the minimum,
// plus rounding of d to f16.
float error_share(DType dtype) {
  constexpr float kF16 = 0x1p-9f;
  switch (dtype) {
    case DType::kF16:
      return 0x1p-11f;
    case DType::kBF16:
      return 0x1p-8f;
    case DType::kQ4_0:
      return 1.0f / 8 + kF16;
    case DType::kQ5_0:
      return 1.0f / 16 + kF16;
    case DType::kQ4_1:
      return 2 * 0.5f / 15 + kF16;  // a range of at most 2 x the magnitude, in 15 steps
    case DType::kQ5_1:
      return 2 * 0.5f / 31 + kF16;
    case DType::kQ8_0:
      return 0.5f / 127 + kF16;
    case DType::kIQ4NL:
      return 14.0f / 127 + kF16;  // +127 is coded as 113; the table's gaps are at most 24
    case DType::kQ2K:
      return 2 * (0.5f / 3 + 0.5f / 15) + 0.5f / 15 + kF16;
    case DType::kQ4K:
      return 2 * (0.5f / 15 + 0.5f / 63) + 0.5f / 63 + kF16;
    case DType::kQ5K:
      return 2 * (0.5f / 31 + 0.5f / 63) + 0.5f / 63 + kF16;
    case DType::kQ3K:
      return 1.0f / 4 + 1.0f / 32 + kF16;
    case DType::kQ6K:
      return 1.0f / 32 + 1.0f / 128 + kF16;
    case DType::kIQ4XS:
      return 14.0f / 127 + 1.0f / 32 + kF16;
    case DType::kF32:
      break;
  }
  return 0.0f;
}

TEST(ReferenceQuant, EveryFormatComesBackWithinItsStep) {
  constexpr uint64_t kSeed = 7;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  const std::vector<float> values = random_values(kSeed, 256 * 40);
  for (DType dtype : kAll) {
    SCOPED_TRACE(dtype_info(dtype)->name);
    const size_t block = std::max(dtype_info(dtype)->block_values, 32u);
    const std::vector<float> back = round_trip(dtype, values);
    for (size_t i = 0; i < values.size(); ++i) {
      float magnitude = 0;
      for (size_t k = i / block * block; k < (i / block + 1) * block; ++k) {
        magnitude = std::max(magnitude, std::fabs(values[k]));
      }
      ASSERT_LE(std::fabs(back[i] - values[i]), magnitude * error_share(dtype)) << i;
    }
  }
}

// Groups differ in size by three orders: a format with a scale for each of them loses nothing of
// the smaller ones but what the integer scale rounds away.
TEST(ReferenceQuant, GroupsOfASuperBlockHaveTheirOwnScales) {
  std::vector<float> values = random_values(9, 256);
  for (size_t i = 0; i < 256; ++i) values[i] *= i < 128 ? 1.0f : 0.05f;
  for (DType dtype : {DType::kQ4K, DType::kQ5K, DType::kQ6K}) {
    SCOPED_TRACE(dtype_info(dtype)->name);
    const std::vector<float> back = round_trip(dtype, values);
    for (size_t i = 128; i < 256; ++i) ASSERT_NEAR(back[i], values[i], 0.05f * 2 * 0.4f) << i;
  }
}

// What is already a value of the format must not change: the property that tiny test models rely
// on.
TEST(ReferenceQuant, ValuesOfTheFormatAreKeptExactly) {
  std::vector<float> q4_0(32), q4_1(32), q8_0(32);
  for (int j = 0; j < 32; ++j) {
    q4_0[j] = 0.25f * static_cast<float>(j % 16 - 8);
    q4_1[j] = 0.5f * static_cast<float>(j % 16) - 3.0f;
    q8_0[j] = 0.125f * static_cast<float>(j * 8 - 127);
  }
  std::vector<float> q5_0(32), q5_1(32), iq4_nl(32);
  for (int j = 0; j < 32; ++j) {
    q5_0[j] = 0.25f * static_cast<float>(j - 16);
    q5_1[j] = 0.5f * static_cast<float>(j) - 3.0f;
    iq4_nl[j] = 0.5f * static_cast<float>(kIQ4Values[j % 16]);
  }
  EXPECT_EQ(round_trip(DType::kQ5_0, q5_0), q5_0);
  EXPECT_EQ(round_trip(DType::kQ5_1, q5_1), q5_1);
  EXPECT_EQ(round_trip(DType::kIQ4NL, iq4_nl), iq4_nl);
  EXPECT_EQ(round_trip(DType::kQ4_0, q4_0), q4_0);
  EXPECT_EQ(round_trip(DType::kQ4_1, q4_1), q4_1);
  EXPECT_EQ(round_trip(DType::kQ8_0, q8_0), q8_0);
}

// The same of a super-block, whose groups reach from lowest to highest integer scale.
TEST(ReferenceQuant, ValuesOfASuperBlockAreKeptExactly) {
  std::vector<float> q2k(256), q3k(256), q4k(256), q5k(256), q6k(256), iq4_xs(256);
  for (int i = 0; i < 256; ++i) {
    const float group = static_cast<float>(15 - i / 16);        // 15..0
    const float signed_group = static_cast<float>(i / 16 - 8);  // -8..7
    const float part = static_cast<float>(7 - i / 32);          // 7..0
    q2k[i] = 0.25f * group * static_cast<float>(i % 4) - 0.5f * group;
    q3k[i] = 0.25f * 4 * signed_group * static_cast<float>(i % 8 - 4);
    q4k[i] = 0.25f * 9 * part * static_cast<float>(i % 16) - 0.5f * 9 * part;
    q5k[i] = 0.25f * 9 * part * static_cast<float>(i % 32) - 0.5f * 9 * part;
    q6k[i] = 0.25f * 16 * signed_group * static_cast<float>(i * 4 % 64 - 32);
    iq4_xs[i] = 0.25f * 4 * (part - 8) * static_cast<float>(kIQ4Values[i % 16]);
  }
  EXPECT_EQ(round_trip(DType::kQ2K, q2k), q2k);
  EXPECT_EQ(round_trip(DType::kQ3K, q3k), q3k);
  EXPECT_EQ(round_trip(DType::kQ4K, q4k), q4k);
  EXPECT_EQ(round_trip(DType::kQ5K, q5k), q5k);
  EXPECT_EQ(round_trip(DType::kQ6K, q6k), q6k);
  EXPECT_EQ(round_trip(DType::kIQ4XS, iq4_xs), iq4_xs);
}

TEST(ReferenceQuant, ABlockOfEqualValuesHasNoScaleToDivideBy) {
  const std::vector<float> zeros(256, 0.0f);
  for (DType dtype : kAll) EXPECT_EQ(round_trip(dtype, zeros), zeros) << dtype_info(dtype)->name;
  const std::vector<float> threes(32, 3.0f);
  EXPECT_EQ(round_trip(DType::kQ4_1, threes), threes);
}

// 1 / d would be infinite.
TEST(ReferenceQuant, ValuesThatAreDenormalBecomeZeros) {
  const std::vector<float> tiny(256, 1e-42f);
  for (DType dtype : {DType::kQ4_0, DType::kQ8_0, DType::kQ6K, DType::kIQ4XS}) {
    EXPECT_EQ(round_trip(dtype, tiny), std::vector<float>(256, 0.0f)) << dtype_info(dtype)->name;
  }
}

TEST(ReferenceQuant, TheLargestMagnitudeOfQ4_0IsKeptWhateverItsSign) {
  for (float extreme : {8.0f, -8.0f}) {
    std::vector<float> values(32, 0.0f);
    values[5] = extreme;
    EXPECT_EQ(round_trip(DType::kQ4_0, values)[5], extreme);
  }
}

TEST(ReferenceQuantDeathTest, WhatTheFormatCannotHoldIsABug) {
  std::vector<float> values(32, 1.0f);
  values[3] = NAN;
  EXPECT_DEATH(quantize(DType::kQ8_0, values), "value 3 is nan");
  values[3] = 1e9f;
  EXPECT_DEATH(quantize(DType::kQ8_0, values), "does not fit an f16");
}

}  // namespace
}  // namespace pacer::tensor
