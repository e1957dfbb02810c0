// The packed layout: every code where packed_layout.h draws it, and every weight back to the bit.

#include "kernels/packed_rows.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/rng.h"
#include "base/test_seed.h"
#include "kernels/packed_layout.h"
#include "kernels/scalar/gguf_rows.h"
#include "tensor/code_block.h"

namespace pacer::kernels {
namespace {

// Rows of random bytes: every code, and every scale, infinities and NaN included.
std::vector<std::byte> random_rows(WeightFormat format, uint32_t rows, uint32_t columns, Rng& rng) {
  const tensor::DType dtype = scalar::dtype_of(format);
  std::vector<std::byte> bytes(rows * tensor::row_bytes(dtype, columns));
  for (std::byte& b : bytes) b = static_cast<std::byte>(rng.next());
  return bytes;
}

std::vector<uint8_t> pack_rows(WeightFormat format, const std::vector<std::byte>& source,
                               uint32_t rows, uint32_t columns) {
  std::vector<uint8_t> packed(packed::packed_bytes(format, rows, columns), 0xa5);
  packed::pack({format, source.data(), rows, columns, 0, rows, packed.data()});
  return packed;
}

uint32_t bits_of(uint8_t byte, uint32_t shift, uint32_t count) {
  return (byte >> shift) & ((1u << count) - 1);
}

// The code of one column as the drawing of packed_layout.h has it; `codes` starts at its block.
uint32_t drawn_code(uint32_t codes_bytes, const uint8_t* codes, uint32_t lane, uint32_t column) {
  const uint32_t i = column % 4;
  const auto byte = [&](uint32_t line) { return codes[line * 64 + 4 * lane + i]; };
  const auto nibble = [&] { return bits_of(byte(column / 8), column % 8 / 4 * 4, 4); };
  const uint32_t field = column % 16 / 4;
  switch (codes_bytes) {
    case packed::kCodes4Bytes:
      return nibble();
    case packed::kCodes5Bytes:
      return nibble() | bits_of(byte(4), 2 * (column / 8) + column % 8 / 4, 1) << 4;
    case packed::kCodes6Bytes:
      return nibble() | bits_of(byte(4 + column / 16), 2 * field, 2) << 4;
    case packed::kCodes8Bytes:
      return byte(column / 4);
    case packed::kCodes2Bytes:
      return bits_of(byte(column / 16), 2 * field, 2);
    case packed::kCodes3Bytes:
      return bits_of(byte(column / 16), 2 * field, 2) |
             bits_of(byte(2), 4 * (column / 16) + field, 1) << 2;
    default:
      ADD_FAILURE() << "codes of " << codes_bytes << " bytes";
      return 0;
  }
}

uint16_t f16_at(const uint8_t* vector, uint32_t lane) {
  uint16_t bits;
  std::memcpy(&bits, vector + 2 * lane, 2);
  return bits;
}

class EveryQuantisedFormat : public testing::TestWithParam<WeightFormat> {};
class EveryFormat : public testing::TestWithParam<WeightFormat> {};

std::vector<WeightFormat> formats(bool quantised_only) {
  std::vector<WeightFormat> all;
  for (uint32_t i = 0; i < kWeightFormatCount; ++i) {
    const auto format = static_cast<WeightFormat>(i);
    if (!quantised_only || packed::is_quantised(format)) all.push_back(format);
  }
  return all;
}

std::string format_name(const testing::TestParamInfo<WeightFormat>& info) {
  return std::string(tensor::dtype_info(scalar::dtype_of(info.param))->name);
}

INSTANTIATE_TEST_SUITE_P(Formats, EveryQuantisedFormat, testing::ValuesIn(formats(true)),
                         format_name);
INSTANTIATE_TEST_SUITE_P(Formats, EveryFormat, testing::ValuesIn(formats(false)), format_name);

TEST_P(EveryQuantisedFormat, CodesAndScalesAreWhereTheDrawingHasThem) {
  const WeightFormat format = GetParam();
  const tensor::DType dtype = scalar::dtype_of(format);
  const uint64_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Rng rng(seed);
  constexpr uint32_t kRows = 16;
  constexpr uint32_t kColumns = 512;
  const auto source = random_rows(format, kRows, kColumns, rng);
  const auto packed_rows = pack_rows(format, source, kRows, kColumns);
  const packed::SpanShape shape = packed::span_shape(format);
  const size_t gguf_block = tensor::row_bytes(dtype, shape.columns);
  const bool has_second_f16 =
      shape.header_bytes > 0 ? shape.header_bytes == 64 : shape.tail_bytes == 64;

  for (uint32_t lane = 0; lane < kRows; ++lane) {
    for (uint32_t k = 0; k < kColumns; k += kQuantBlock) {
      const std::byte* row = source.data() + lane * tensor::row_bytes(dtype, kColumns);
      const uint32_t part = k % shape.columns / kQuantBlock;
      const tensor::CodeBlock block =
          tensor::read_code_block(dtype, row + k / shape.columns * gguf_block, part);
      const uint8_t* span = packed_rows.data() + k / shape.columns * shape.bytes();
      const uint8_t* codes = span + shape.header_bytes + part * shape.block_bytes();
      for (uint32_t c = 0; c < kQuantBlock; ++c) {
        ASSERT_EQ(drawn_code(shape.codes_bytes, codes, lane, c), block.codes[c])
            << "row " << lane << " column " << k + c;
      }
      const uint8_t* tail = codes + shape.codes_bytes;
      const uint8_t* f16 = shape.header_bytes > 0 ? span : tail;
      ASSERT_EQ(f16_at(f16, lane), block.d);
      if (has_second_f16) {
        ASSERT_EQ(f16_at(f16 + 32, lane), block.m);
      }
      if (shape.columns == kSuperBlock) {
        const bool has_halves = format == WeightFormat::kQ3K || format == WeightFormat::kQ6K;
        const int shift = format == WeightFormat::kQ2K ? 4 : 0;
        const int first = block.scales[0] | (shift == 4 ? block.mins[0] << 4 : 0);
        const int second = has_halves   ? block.scales[1]
                           : shift == 4 ? block.scales[1] | block.mins[1] << 4
                                        : block.mins[0];
        ASSERT_EQ(tail[lane], static_cast<uint8_t>(first));
        ASSERT_EQ(tail[16 + lane], static_cast<uint8_t>(second));
      }
    }
  }
}

TEST_P(EveryFormat, ARowComesBackToTheBit) {
  const WeightFormat format = GetParam();
  const tensor::DType dtype = scalar::dtype_of(format);
  const uint64_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Rng rng(seed);
  constexpr uint32_t kRows = 21;
  constexpr uint32_t kColumns = 768;
  const auto source = random_rows(format, kRows, kColumns, rng);
  const auto packed_rows = pack_rows(format, source, kRows, kColumns);
  std::vector<float> expected(kColumns);
  std::vector<float> got(kColumns);
  for (uint32_t row = 0; row < kRows; ++row) {
    tensor::dequantize(dtype, source.data() + row * tensor::row_bytes(dtype, kColumns), kColumns,
                       expected.data());
    packed::unpack_row(format, packed_rows.data(), kRows, kColumns, row, got.data());
    ASSERT_EQ(std::memcmp(got.data(), expected.data(), kColumns * sizeof(float)), 0)
        << "row " << row;
  }
}

TEST_P(EveryFormat, RowsThatDoNotExistAreZeros) {
  const WeightFormat format = GetParam();
  Rng rng(1);
  const auto source = random_rows(format, 3, 256, rng);
  const auto packed_rows = pack_rows(format, source, 3, 256);
  std::vector<float> out(256, 1.0f);
  packed::unpack_row(format, packed_rows.data(), 16, 256, 3, out.data());
  for (float value : out) ASSERT_EQ(value, 0.0f);
}

TEST(PackedRowsDeathTest, RowsThatAreNotThereAreABug) {
  std::vector<std::byte> source(2 * 18);
  std::vector<uint8_t> packed_rows(packed::packed_bytes(WeightFormat::kQ4_0, 2, 32));
  float out[32];
  EXPECT_DEATH(packed::unpack_row(WeightFormat::kQ4_0, packed_rows.data(), 2, 32, 2, out),
               "row 2 of 2");
  EXPECT_DEATH(packed::pack({WeightFormat::kQ4_0, source.data(), 2, 32, 0, 3, packed_rows.data()}),
               "rows 0..3 of 2");
}

}  // namespace
}  // namespace pacer::kernels
