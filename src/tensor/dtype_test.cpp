#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace pacer::tensor {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (int v : values) bytes.push_back(static_cast<std::byte>(v));
  return bytes;
}

// What a half means, by the formula of IEEE 754 and nothing else.
double half_by_formula(uint16_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 0x3ff;
  if (exponent == 31) return mantissa == 0 ? sign * kInfinity : std::nan("");
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(Half, EveryHalfMeansWhatTheFormulaSays) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const double expected = half_by_formula(static_cast<uint16_t>(bits));
    const float actual = f16_to_f32(static_cast<uint16_t>(bits));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(actual)) << bits;
    } else {
      ASSERT_EQ(static_cast<double>(actual), expected) << bits;
      ASSERT_EQ(std::signbit(actual), (bits & 0x8000) != 0) << bits;
    }
  }
}

TEST(Half, EveryHalfSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    ASSERT_EQ(f32_to_f16(f16_to_f32(static_cast<uint16_t>(bits))), bits);
  }
}

// Between every two neighbours: the midpoint goes to the even one, the floats beside it to the
// nearer one.
TEST(Half, RoundsToNearestAndTiesToEven) {
  for (uint16_t low = 0; low < 0x7bff; ++low) {
    const uint16_t high = low + 1;
    const float middle = (f16_to_f32(low) + f16_to_f32(high)) / 2;  // exact in f32
    const uint16_t even = (low & 1) == 0 ? low : high;
    ASSERT_EQ(f32_to_f16(middle), even) << low;
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 0.0f)), low) << low;
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, kInfinity)), high) << low;
    ASSERT_EQ(f32_to_f16(-middle), even | 0x8000) << low;
  }
}

TEST(Half, OverflowBecomesInfinityOnlyFrom65520) {
  EXPECT_EQ(f32_to_f16(65504.0f), 0x7bff);
  EXPECT_EQ(f32_to_f16(std::nextafter(65520.0f, 0.0f)), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(-1e30f), 0xfc00);
  EXPECT_EQ(f32_to_f16(kInfinity), 0x7c00);
}

TEST(Half, ANanNeverBecomesAnInfinity) {
  EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7f800001u)))));
}

TEST(Half, TinyFloatsBecomeSignedZero) {
  EXPECT_EQ(f32_to_f16(0x1p-25f), 0);  // the tie between 0 and the smallest subnormal
  EXPECT_EQ(f32_to_f16(std::nextafter(0x1p-25f, 1.0f)), 1);
  EXPECT_EQ(f32_to_f16(-0x1p-149f), 0x8000);
}

TEST(Bfloat16, EveryValueSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    ASSERT_EQ(f32_to_bf16(bf16_to_f32(static_cast<uint16_t>(bits))), bits);
  }
}

TEST(Bfloat16, RoundsToNearestAndTiesToEven) {
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808000u)), 0x3f80);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f818000u)), 0x3f82);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808001u)), 0x3f81);
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
}

TEST(DTypes, NamesAreThoseOfGgml) {
  int known = 0;
  for (uint32_t type = 0; type < 64; ++type) {
    const auto info = dtype_info(static_cast<DType>(type));
    if (!info) continue;
    ++known;
    EXPECT_EQ(info->name, ggml_type_name(type));
  }
  EXPECT_EQ(known, 15);
  EXPECT_EQ(ggml_type_name(13), "Q5_K");
  EXPECT_EQ(ggml_type_name(39), "MXFP4");
  EXPECT_EQ(ggml_type_name(42), "Q2_0");
  EXPECT_EQ(ggml_type_name(43), "type 43");
  EXPECT_EQ(ggml_type_name(4294967295u), "type 4294967295");
}

TEST(DTypes, ATypeThatWeCannotComputeWithHasNoInfo) {
  EXPECT_FALSE(dtype_info(static_cast<DType>(9)));
  EXPECT_FALSE(dtype_info(static_cast<DType>(99)));
}

TEST(DTypes, RowBytesCountWholeBlocks) {
  EXPECT_EQ(row_bytes(DType::kF32, 3), 12u);
  EXPECT_EQ(row_bytes(DType::kBF16, 3), 6u);
  EXPECT_EQ(row_bytes(DType::kQ4_0, 64), 36u);
  EXPECT_EQ(row_bytes(DType::kQ4_1, 64), 40u);
  EXPECT_EQ(row_bytes(DType::kQ8_0, 64), 68u);
  EXPECT_EQ(row_bytes(DType::kQ6K, 512), 420u);
  EXPECT_EQ(row_bytes(DType::kQ8_0, 0), 0u);
}

TEST(DTypesDeathTest, PartOfABlockIsABug) {
  EXPECT_DEATH(row_bytes(DType::kQ4_0, 33), "33 values are no whole blocks of Q4_0");
  EXPECT_DEATH(row_bytes(static_cast<DType>(9), 32), "row_bytes of Q8_1");
  EXPECT_DEATH(row_bytes(DType::kQ4K, 128), "128 values are no whole blocks of Q4_K");
}

TEST(Dequantize, Q4_0PutsLowNibblesFirstAndSubtractsEight) {
  std::vector<std::byte> block = bytes_of({0x00, 0x38});  // d = 0.5
  for (int j = 0; j < 16; ++j) block.push_back(static_cast<std::byte>(j | ((15 - j) << 4)));
  float out[32];
  dequantize(DType::kQ4_0, block.data(), 32, out);
  for (int j = 0; j < 16; ++j) {
    EXPECT_EQ(out[j], 0.5f * static_cast<float>(j - 8));
    EXPECT_EQ(out[j + 16], 0.5f * static_cast<float>(7 - j));
  }
}

TEST(Dequantize, Q4_1AddsTheMinimum) {
  std::vector<std::byte> block = bytes_of({0x00, 0x38, 0x00, 0xc0});  // d = 0.5, m = -2
  for (int j = 0; j < 16; ++j) block.push_back(static_cast<std::byte>(j | ((15 - j) << 4)));
  float out[32];
  dequantize(DType::kQ4_1, block.data(), 32, out);
  for (int j = 0; j < 16; ++j) {
    EXPECT_EQ(out[j], 0.5f * static_cast<float>(j) - 2.0f);
    EXPECT_EQ(out[j + 16], 0.5f * static_cast<float>(15 - j) - 2.0f);
  }
}

TEST(Dequantize, Q8_0IsSigned) {
  std::vector<std::byte> block = bytes_of({0x00, 0x34});  // d = 0.25
  for (int j = 0; j < 32; ++j) block.push_back(static_cast<std::byte>(j - 16));
  block[2] = std::byte{0x80};
  float out[32];
  dequantize(DType::kQ8_0, block.data(), 32, out);
  EXPECT_EQ(out[0], -32.0f);
  for (int j = 1; j < 32; ++j) EXPECT_EQ(out[j], 0.25f * static_cast<float>(j - 16));
}

TEST(Dequantize, ReadsUnalignedSources) {
  std::vector<std::byte> bytes =
      bytes_of({0xff, 0x00, 0x3c, 0x00, 0xc0});  // one byte before two halves
  float out[2];
  dequantize(DType::kF16, bytes.data() + 1, 2, out);
  EXPECT_EQ(out[0], 1.0f);
  EXPECT_EQ(out[1], -2.0f);
}

TEST(Dequantize, EveryBlockHasItsOwnScale) {
  std::vector<std::byte> blocks(2 * 34, std::byte{1});
  blocks[0] = std::byte{0x00};
  blocks[1] = std::byte{0x3c};  // d = 1
  blocks[34] = std::byte{0x00};
  blocks[35] = std::byte{0x40};  // d = 2
  float out[64];
  dequantize(DType::kQ8_0, blocks.data(), 64, out);
  EXPECT_EQ(out[31], 1.0f);
  EXPECT_EQ(out[32], 2.0f);
}

}  // namespace
}  // namespace pacer::tensor
