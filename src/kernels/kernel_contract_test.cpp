// The contract of weights: packing, unpacking and gemm, for every tier that this machine has.
//
// An integer tier must match scalar gemm_q8 (exactly where every step is exact, within rounding
// elsewhere) and stay within the quantisation error of the oracle gemm_f32. Bounds are derived from
// the sum of the absolute products.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/contract_fixture.h"
#include "kernels/scalar/gemm_q8.h"
#include "kernels/scalar/kernels.h"
#include "tensor/code_block.h"

namespace pacer::kernels {
namespace {

constexpr float kPoison = -12345.678f;

class KernelContract : public EveryTier {
 protected:
  // out[m][n] for all n, each call covering `rows_per_call` activation rows.
  std::vector<float> multiply(const PackedMatrix& packed, const GgufMatrix& matrix,
                              const ActivationRows& x, uint32_t rows_per_call) const {
    std::vector<float> out(static_cast<size_t>(x.rows) * matrix.rows, kPoison);
    for (uint32_t m = 0; m < x.rows; m += rows_per_call) {
      const uint32_t count = std::min(rows_per_call, x.rows - m);
      kernels().gemm({matrix.format, packed.data(), matrix.rows,
                      x.view(kind(matrix.format), m, count), &out[m * matrix.rows], matrix.rows, 0,
                      matrix.rows});
    }
    return out;
  }
  std::vector<float> multiply(const PackedMatrix& packed, const GgufMatrix& matrix,
                              const ActivationRows& x) const {
    return multiply(packed, matrix, x, x.rows);
  }
};

PACER_FOR_EVERY_TIER(KernelContract);

// What gemm should give, in double, with the error that f32 arithmetic may add.
struct Expected {
  std::vector<double> value;
  std::vector<double> bound;
};

double dot_in_double(const float* x, const std::vector<float>& w, double& norm) {
  double sum = 0;
  for (size_t k = 0; k < w.size(); ++k) {
    sum += static_cast<double>(x[k]) * w[k];
    norm += std::fabs(static_cast<double>(x[k]) * w[k]);
  }
  return sum;
}

// The oracle: a chain of at most columns + 8 roundings, each relative to at most the sum of
// absolute products.
Expected expect_f32(const GgufMatrix& matrix, const ActivationRows& x) {
  Expected expected;
  for (uint32_t m = 0; m < x.rows; ++m) {
    for (uint32_t n = 0; n < matrix.rows; ++n) {
      double norm = 0;
      const double value = dot_in_double(&x.f32[m * x.columns], matrix.dequantised_row(n), norm);
      expected.value.push_back(value);
      expected.bound.push_back((matrix.columns + 8) * kRounding * norm);
    }
  }
  return expected;
}

// The absolute values of what gemm_q8 adds up for a weight row, for activations of 1: |d s q| and
// |offset| of each column. Larger than the weights, as offsets take off much of d s q.
std::vector<double> absolute_terms(const GgufMatrix& matrix, uint32_t row) {
  const tensor::DType dtype = scalar::dtype_of(matrix.format);
  const tensor::DTypeInfo info = *tensor::dtype_info(dtype);
  const std::byte* at = matrix.data() + row * matrix.row_bytes();
  std::vector<double> terms;
  for (uint32_t k = 0; k < matrix.columns; k += kQuantBlock) {
    const tensor::CodeBlock block = tensor::read_code_block(
        dtype, at + k / info.block_values * info.block_bytes, k % info.block_values / kQuantBlock);
    int8_t values[kQuantBlock];
    tensor::code_values(dtype, block.codes, values);
    const double d = std::fabs(tensor::f16_to_f32(block.d));
    const double m = std::fabs(tensor::f16_to_f32(block.m));
    const double centre = tensor::code_centre(dtype);
    for (uint32_t i = 0; i < kQuantBlock; ++i) {
      const double s = std::abs(block.scales[i / 16]);
      terms.push_back(d * s * (std::fabs(values[i] + centre) + centre) +
                      m * std::abs(block.mins[i / 16]));
    }
  }
  return terms;
}

// gemm_q8's definition on the quantised activations: w = scale * q + offset as GGUF has it, so the
// exact value is the dot of the dequantised weights with scale * value. A block costs at most 8
// roundings of its terms and 3 of the total, relative to the absolute products.
Expected expect_q8(const GgufMatrix& matrix, const ActivationRows& x) {
  Expected expected;
  expected.value.resize(static_cast<size_t>(x.rows) * matrix.rows);
  expected.bound.resize(expected.value.size());
  const uint32_t blocks = matrix.columns / kQuantBlock;
  for (uint32_t n = 0; n < matrix.rows; ++n) {
    const std::vector<float> w = matrix.dequantised_row(n);
    const std::vector<double> terms = absolute_terms(matrix, n);
    for (uint32_t m = 0; m < x.rows; ++m) {
      double value = 0;
      double norm = 0;
      for (uint32_t k = 0; k < matrix.columns; ++k) {
        const double x_k = static_cast<double>(x.scales[m * blocks + k / kQuantBlock]) *
                           x.values[m * x.columns + k];
        value += x_k * w[k];
        norm += std::fabs(x_k) * terms[k];
      }
      expected.value[m * matrix.rows + n] = value;
      expected.bound[m * matrix.rows + n] = (8 + 3 * blocks) * kRounding * norm;
    }
  }
  return expected;
}

void expect_near(const Expected& expected, const std::vector<float>& got) {
  ASSERT_EQ(got.size(), expected.value.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], expected.value[i], expected.bound[i]) << "result " << i;
  }
}

struct Shape {
  uint32_t rows;
  uint32_t columns;
};
constexpr Shape kShapes[] = {{1, 32},    {16, 64},  {17, 96}, {33, 576},
                             {40, 1536}, {7, 4128}, {24, 32}};
constexpr uint32_t kBatches[] = {1, 2, 3, 4, 5, 6, 7, 8, 16, 17, 33};

TEST_P(KernelContract, GemmIsTheDotOfDequantisedRows) {
  uint64_t seed = 1;
  for (WeightFormat format : kFormats) {
    for (Shape shape : kShapes) {
      const uint32_t batch = kBatches[seed % std::size(kBatches)];
      SCOPED_TRACE(testing::Message() << name_of(format) << " " << shape.rows << " x "
                                      << shape.columns << ", batch " << batch << ", seed " << seed);
      Rng rng(seed++);
      const uint32_t columns = whole_blocks(format, shape.columns);
      const GgufMatrix matrix = random_matrix(format, shape.rows, columns, rng);
      const PackedMatrix packed(kernels(), matrix);
      const ActivationRows x(kernels(), batch, columns,
                             random_floats(rng, static_cast<size_t>(batch) * columns));
      const Expected expected =
          kind(format) == ActivationKind::kQ8 ? expect_q8(matrix, x) : expect_f32(matrix, x);
      expect_near(expected, multiply(packed, matrix, x));
    }
  }
}

// The scalar reference meets the same bound, so a tier and the reference differ by at most twice of
// it.
TEST(ScalarGemmQ8, IsTheDotOfDequantisedRowsAndQuantisedActivations) {
  const KernelTable& scalar_kernels = *supported_kernels().back();
  for (WeightFormat format : kQuantisedFormats) {
    SCOPED_TRACE(testing::Message() << name_of(format) << ", seed 5");
    Rng rng(5);
    const uint32_t columns = whole_blocks(format, 576);
    const GgufMatrix matrix = random_matrix(format, 19, columns, rng);
    const PackedMatrix packed(scalar_kernels, matrix);
    const ActivationRows x(scalar_kernels, 3, columns, random_floats(rng, 3 * columns));
    std::vector<float> out(3 * 19);
    scalar::gemm_q8(
        {format, packed.data(), 19, x.view(ActivationKind::kQ8), out.data(), 19, 0, 19});
    expect_near(expect_q8(matrix, x), out);
  }
}

TEST_P(KernelContract, GemmStaysWithinTheQuantisationErrorOfTheOracle) {
  for (WeightFormat format : kQuantisedFormats) {
    SCOPED_TRACE(testing::Message() << name_of(format) << ", seed 11");
    Rng rng(11);
    const uint32_t columns = whole_blocks(format, 576);
    const GgufMatrix matrix = random_matrix(format, 32, columns, rng);
    const PackedMatrix packed(kernels(), matrix);
    const ActivationRows x(kernels(), 9, columns, random_floats(rng, 9 * columns));
    Expected expected = expect_f32(matrix, x);
    const Expected rounding = expect_q8(matrix, x);
    for (size_t i = 0; i < expected.value.size(); ++i) {
      // An activation moves by at most half a scale (plus its own rounding).
      const size_t m = i / matrix.rows;
      const std::vector<float> w = matrix.dequantised_row(i % matrix.rows);
      double moved = 0;
      for (uint32_t k = 0; k < columns; ++k) {
        moved += 0.501 * x.scales[m * (columns / kQuantBlock) + k / kQuantBlock] * std::fabs(w[k]);
      }
      expected.bound[i] += rounding.bound[i] + moved;
    }
    expect_near(expected, multiply(packed, matrix, x));
  }
}

// Activations given as integers: all scales are 1, so that a result is a whole number.
void set_integers(ActivationRows& x, auto next_value) {
  std::fill(x.scales.begin(), x.scales.end(), 1.0f);
  std::fill(x.sums.begin(), x.sums.end(), 0.0f);
  std::fill(x.half_sums.begin(), x.half_sums.end(), 0.0f);
  for (size_t i = 0; i < x.values.size(); ++i) {
    x.values[i] = static_cast<int8_t>(next_value());
    x.sums[i / kQuantBlock] += static_cast<float>(x.values[i]);
    x.half_sums[i / (kQuantBlock / 2)] += static_cast<float>(x.values[i]);
  }
}

ActivationRows empty_activations(const KernelTable& kernels, uint32_t rows, uint32_t columns) {
  return {kernels, rows, columns, std::vector<float>(static_cast<size_t>(rows) * columns)};
}

std::vector<float> reference_q8(const GgufMatrix& matrix, const ActivationRows& x) {
  const PackedMatrix packed(*supported_kernels().back(), matrix);
  std::vector<float> out(static_cast<size_t>(x.rows) * matrix.rows);
  scalar::gemm_q8({matrix.format, packed.data(), matrix.rows, x.view(ActivationKind::kQ8),
                   out.data(), matrix.rows, 0, matrix.rows});
  return out;
}

constexpr double kExactBelow = 0x1p24;  // whole numbers that f32 adds exactly

// With all scales 1 and whole numbers below 2^24 every step is exact: any difference is a wrong
// integer. Integer scales of super-blocks stay random; activations are as large as 2^24 allows.
TEST_P(KernelContract, IntegerPartsAreExact) {
  for (WeightFormat format : kQuantisedFormats) {
    if (kind(format) != ActivationKind::kQ8) continue;
    for (uint32_t batch : kBatches) {
      SCOPED_TRACE(testing::Message() << name_of(format) << ", batch and seed " << batch);
      Rng rng(batch);
      const uint32_t columns = whole_blocks(format, 288);
      GgufMatrix matrix = random_matrix(format, 35, columns, rng);
      for_each_block(matrix, [&](std::byte* block, size_t) {
        const BlockPlan plan = plan_of(format);
        put_f16(block + plan.d, 1.0f);
        if (plan.m >= 0) put_f16(block + plan.m, static_cast<float>(rng.below(9)) - 4);
      });
      double norm = 0;
      for (uint32_t n = 0; n < matrix.rows; ++n) {
        const std::vector<double> terms = absolute_terms(matrix, n);
        norm = std::max(norm, std::accumulate(terms.begin(), terms.end(), 0.0));
      }
      const int limit = static_cast<int>(std::min(127.0, std::floor(kExactBelow / norm)));
      ASSERT_GE(limit, 2);
      ActivationRows x = empty_activations(kernels(), batch, columns);
      set_integers(x, [&] { return static_cast<int>(rng.below(2 * limit + 1)) - limit; });
      ASSERT_EQ(multiply(PackedMatrix(kernels(), matrix), matrix, x), reference_q8(matrix, x));
    }
  }
}

// Codes and integer scales all at an extreme, each with each. Results up to 2^24 are exact; an
// overflow is far outside of what rounding explains above.
TEST_P(KernelContract, ExtremeValuesDoNotOverflow) {
  constexpr int kBytes[] = {0x00, 0x1f, 0x7f, 0x80, 0x81, 0xff};
  for (WeightFormat format : kQuantisedFormats) {
    if (kind(format) != ActivationKind::kQ8) continue;
    const BlockPlan plan = plan_of(format);
    const uint32_t columns = whole_blocks(format, 288);
    for (int code_byte : kBytes) {
      for (int scale_byte : kBytes) {
        if (plan.scales_bytes == 0 && scale_byte != 0) continue;  // the format has none
        GgufMatrix matrix = empty_matrix(format, 16, columns);
        for_each_block(matrix, [&](std::byte* block, size_t bytes) {
          std::memset(block, code_byte, bytes);
          std::memset(block + plan.scales, scale_byte, static_cast<size_t>(plan.scales_bytes));
          put_f16(block + plan.d, 1.0f);
          if (plan.m >= 0) put_f16(block + plan.m, -7.0f);
        });
        const PackedMatrix packed(kernels(), matrix);
        for (int value : {-127, 127, 0}) {
          SCOPED_TRACE(testing::Message()
                       << name_of(format) << " codes " << code_byte << ", scales " << scale_byte
                       << ", activations " << value);
          ActivationRows x = empty_activations(kernels(), 7, columns);
          set_integers(x, [&] { return value; });
          const std::vector<float> got = multiply(packed, matrix, x);
          const std::vector<float> expected = reference_q8(matrix, x);
          const Expected exact = expect_q8(matrix, x);
          for (size_t i = 0; i < got.size(); ++i) {
            const bool is_exact =
                exact.bound[i] < (8 + 3 * columns / kQuantBlock) * kRounding * kExactBelow;
            ASSERT_NEAR(got[i], exact.value[i], is_exact ? 0.0 : exact.bound[i]);
            ASSERT_NEAR(got[i], expected[i], is_exact ? 0.0 : 2 * exact.bound[i]);
          }
        }
      }
    }
  }
}

TEST_P(KernelContract, ZeroAndDenormalActivationsGiveZeros) {
  for (WeightFormat format : kFormats) {
    SCOPED_TRACE(name_of(format) + ", seed 3");
    Rng rng(3);
    const uint32_t columns = whole_blocks(format, 64);
    const GgufMatrix matrix = random_matrix(format, 20, columns, rng);
    const PackedMatrix packed(kernels(), matrix);
    std::vector<float> tiny(2 * columns, 0.0f);
    for (uint32_t k = 0; k < columns; ++k) tiny[columns + k] = 1e-40f;
    const ActivationRows x(kernels(), 2, columns, tiny);
    const std::vector<float> out = multiply(packed, matrix, x);
    for (uint32_t n = 0; n < 20; ++n) {
      EXPECT_EQ(out[n], 0.0f);
      EXPECT_LE(std::fabs(out[20 + n]), 1e-36f);
    }
  }
}

// What makes answers independent of their neighbours: a row's result is the same bits whatever else
// is in the batch.
TEST_P(KernelContract, ARowsResultDoesNotDependOnTheBatch) {
  for (WeightFormat format : kFormats) {
    for (Shape shape : {Shape{49, 576}, Shape{16, 8224}, Shape{5, 64}}) {
      SCOPED_TRACE(testing::Message() << name_of(format) << " " << shape.columns << ", seed 21");
      Rng rng(21);
      const uint32_t columns = whole_blocks(format, shape.columns);
      const GgufMatrix matrix = random_matrix(format, shape.rows, columns, rng);
      const PackedMatrix packed(kernels(), matrix);
      const ActivationRows x(kernels(), 37, columns, random_floats(rng, 37ull * columns));
      const std::vector<float> one_by_one = multiply(packed, matrix, x, 1);
      for (uint32_t rows_per_call : {2, 3, 4, 5, 6, 7, 8, 13, 37}) {
        const std::vector<float> together = multiply(packed, matrix, x, rows_per_call);
        ASSERT_EQ(std::memcmp(together.data(), one_by_one.data(), together.size() * sizeof(float)),
                  0)
            << rows_per_call << " rows in a call";
      }
    }
  }
}

TEST_P(KernelContract, ARowsResultDoesNotDependOnTheTilesOfWeightRows) {
  for (WeightFormat format : kFormats) {
    SCOPED_TRACE(name_of(format) + ", seed 8");
    Rng rng(8);
    const GgufMatrix matrix = random_matrix(format, 77, 1024, rng);
    const PackedMatrix packed(kernels(), matrix);
    const ActivationRows x(kernels(), 11, 1024, random_floats(rng, 11 * 1024));
    const std::vector<float> whole = multiply(packed, matrix, x);
    std::vector<float> in_tiles(whole.size(), kPoison);
    for (uint32_t begin : {64u, 0u, 16u, 32u}) {
      const uint32_t end = begin == 32 ? 64 : begin == 64 ? 77 : begin + 16;
      kernels().gemm({format, packed.data(), matrix.rows, x.view(kind(format)), in_tiles.data(),
                      matrix.rows, begin, end});
    }
    ASSERT_EQ(in_tiles, whole);
  }
}

TEST_P(KernelContract, GemmWritesItsRowRangeAndNothingElse) {
  for (WeightFormat format : kFormats) {
    for (uint32_t rows : {1u, 5u, 8u, 9u, 15u, 16u, 17u, 31u, 40u}) {
      SCOPED_TRACE(testing::Message() << name_of(format) << ", " << rows << " rows, seed 2");
      Rng rng(2);
      const uint32_t stride = rows + 19;
      const uint32_t columns = whole_blocks(format, 64);
      const GgufMatrix matrix = random_matrix(format, rows, columns, rng);
      const PackedMatrix packed(kernels(), matrix);
      const ActivationRows x(kernels(), 7, columns, random_floats(rng, 7 * columns));
      const uint32_t begin = rows > kRowGroup ? kRowGroup : 0;
      std::vector<float> out(8 * stride, kPoison);
      kernels().gemm(
          {format, packed.data(), rows, x.view(kind(format)), out.data(), stride, begin, rows});
      for (size_t i = 0; i < out.size(); ++i) {
        const bool mine = i / stride < 7 && i % stride >= begin && i % stride < rows;
        ASSERT_EQ(out[i] == kPoison, !mine) << "row " << i / stride << " column " << i % stride;
      }
    }
  }
}

TEST_P(KernelContract, AccumulatingAddsToWhatIsThere) {
  for (WeightFormat format : kFormats) {
    SCOPED_TRACE(testing::Message() << name_of(format) << ", seed 23");
    Rng rng(23);
    const uint32_t columns = whole_blocks(format, 96);
    const GgufMatrix matrix = random_matrix(format, 21, columns, rng);
    const PackedMatrix packed(kernels(), matrix);
    const ActivationRows x(kernels(), 7, columns, random_floats(rng, 7 * columns));
    const std::vector<float> once = multiply(packed, matrix, x);
    std::vector<float> out(once.size());
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(i);
    kernels().gemm({matrix.format, packed.data(), matrix.rows, x.view(kind(format), 0, 7),
                    out.data(), matrix.rows, 0, matrix.rows, /*accumulate=*/true});
    for (size_t i = 0; i < out.size(); ++i) {
      // The same products, added to a start of up to 147 instead of 0: some 100 more roundings.
      ASSERT_NEAR(out[i], static_cast<float>(i) + once[i], 100 * kRounding * (200 + 100)) << i;
    }
  }
}

TEST_P(KernelContract, UnpackedRowsAreTheDequantisedGgufRows) {
  for (WeightFormat format : kFormats) {
    SCOPED_TRACE(name_of(format) + ", seed 4");
    Rng rng(4);
    const GgufMatrix matrix = random_matrix(format, 21, whole_blocks(format, 160), rng);
    const PackedMatrix packed(kernels(), matrix);
    for (uint32_t row = 0; row < matrix.rows; ++row) {
      std::vector<float> out(matrix.columns + 1, kPoison);
      kernels().unpack_row(format, packed.data(), matrix.rows, matrix.columns, row, out.data());
      EXPECT_EQ(out.back(), kPoison);
      out.pop_back();
      ASSERT_EQ(out, matrix.dequantised_row(row)) << "row " << row;
    }
  }
}

TEST_P(KernelContract, PackingInRangesIsPackingAtOnce) {
  for (WeightFormat format : kFormats) {
    SCOPED_TRACE(name_of(format) + ", seed 6");
    Rng rng(6);
    const uint32_t columns = whole_blocks(format, 96);
    const GgufMatrix matrix = random_matrix(format, 75, columns, rng);
    const PackedMatrix whole(kernels(), matrix);
    AlignedBuffer<std::byte> parts(whole.bytes(), 0x3c);
    for (uint32_t begin : {48u, 0u, 16u}) {  // in no particular order, as workers do
      const uint32_t end = begin == 0 ? 16 : begin == 16 ? 48 : 75;
      kernels().pack({format, matrix.data(), 75, columns, begin, end, parts.get()});
    }
    ASSERT_EQ(std::memcmp(parts.get(), whole.data(), whole.bytes()), 0);
  }
}

TEST_P(KernelContract, PackedWeightsTakeAtMostAFifthMoreThanTheFile) {
  for (WeightFormat format : kFormats) {
    const GgufMatrix matrix = empty_matrix(format, 576, 1536);
    const size_t bytes = kernels().packed_bytes(format, 576, 1536);
    EXPECT_LE(static_cast<double>(bytes), 1.2 * static_cast<double>(matrix.bytes()))
        << name_of(format);
    EXPECT_GE(bytes, matrix.bytes()) << name_of(format);
  }
}

// tests/golden leaves the second out on this ground.
TEST(GemmOfAvx512, IsTheSameToTheBitWithAndWithoutVnni) {
  const KernelTable* with = nullptr;
  const KernelTable* without = nullptr;
  for (const KernelTable* table : supported_kernels()) {
    if (table->name == std::string_view("avx512")) with = table;
    if (table->name == std::string_view("avx512-novnni")) without = table;
  }
  if (with == nullptr || without == nullptr) GTEST_SKIP() << "this machine has no AVX-512 VNNI";
  for (const WeightFormat format : kFormats) {
    SCOPED_TRACE(name_of(format));
    Rng rng(5);
    const GgufMatrix matrix = random_matrix(format, 40, 512, rng);
    const ActivationRows x(*with, 17, 512, random_floats(rng, 17 * 512, 3.0f));
    std::vector<float> out[2];
    for (const KernelTable* table : {with, without}) {
      std::vector<float>& to = out[table == without];
      to.resize(17 * 40);
      const PackedMatrix packed(*table, matrix);
      const auto kind = table->activation_kind[static_cast<size_t>(format)];
      table->gemm({.format = format,
                   .packed = packed.data(),
                   .rows = 40,
                   .x = x.view(kind),
                   .out = to.data(),
                   .out_stride = 40,
                   .row_begin = 0,
                   .row_end = 40});
    }
    EXPECT_EQ(out[0], out[1]);
  }
}

}  // namespace
}  // namespace pacer::kernels
