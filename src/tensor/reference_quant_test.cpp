#include "tensor/reference_quant.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/rng.h"

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

// Largest error that one block of 32 may have, from its own range: half a code step, plus the
// rounding of the scale to f16 (2^-11 of it, times the largest code), plus one whole step at the
// end that the codes do not reach (Q4_0: +8).
float error_bound(DType dtype, const float* block) {
  const auto [low, high] = std::minmax_element(block, block + 32);
  const float magnitude = std::max(std::fabs(*low), std::fabs(*high));
  switch (dtype) {
    case DType::kQ4_0:
      return magnitude / 8 * 1.01f + magnitude * 0x1p-10f;
    case DType::kQ4_1:
      return (*high - *low) / 15 * 0.51f + magnitude * 0x1p-9f;
    case DType::kQ8_0:
      return magnitude / 127 * 0.51f + magnitude * 0x1p-10f;
    case DType::kF16:
      return magnitude * 0x1p-11f;
    case DType::kBF16:
      return magnitude * 0x1p-8f;
    default:
      return 0.0f;
  }
}

TEST(ReferenceQuant, EveryFormatComesBackWithinItsStep) {
  constexpr uint64_t kSeed = 7;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  const std::vector<float> values = random_values(kSeed, 32 * 200);
  for (DType dtype :
       {DType::kF32, DType::kF16, DType::kBF16, DType::kQ4_0, DType::kQ4_1, DType::kQ8_0}) {
    SCOPED_TRACE(dtype_info(dtype)->name);
    const std::vector<float> back = round_trip(dtype, values);
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_LE(std::fabs(back[i] - values[i]), error_bound(dtype, &values[i / 32 * 32])) << i;
    }
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
  EXPECT_EQ(round_trip(DType::kQ4_0, q4_0), q4_0);
  EXPECT_EQ(round_trip(DType::kQ4_1, q4_1), q4_1);
  EXPECT_EQ(round_trip(DType::kQ8_0, q8_0), q8_0);
}

TEST(ReferenceQuant, ABlockOfEqualValuesHasNoScaleToDivideBy) {
  const std::vector<float> zeros(32, 0.0f);
  EXPECT_EQ(round_trip(DType::kQ4_0, zeros), zeros);
  EXPECT_EQ(round_trip(DType::kQ8_0, zeros), zeros);
  const std::vector<float> threes(32, 3.0f);
  EXPECT_EQ(round_trip(DType::kQ4_1, threes), threes);
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
