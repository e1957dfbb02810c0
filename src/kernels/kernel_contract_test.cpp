// The contract of weights: packing, unpacking and gemm, for every tier that this machine has.
//
// An integer tier must match scalar gemm_q8 (exactly where every step is exact, within rounding
// elsewhere) and stay within the quantisation error of the oracle gemm_f32. Bounds are derived from
// the sum of the absolute products.

#include <algorithm>
#include <cmath>

#include "kernels/contract_fixture.h"
#include "kernels/scalar/gemm_q8.h"
#include "kernels/scalar/kernels.h"

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

// gemm_q8's definition on the quantised activations: w = scale * q + offset as GGUF has it, so the
// exact value is the dot of the dequantised weights with scale * value. A block costs at most 6
// roundings, relative to the absolute products of its two terms.
Expected expect_q8(const GgufMatrix& matrix, const ActivationRows& x) {
  Expected expected;
  const uint32_t blocks = matrix.columns / kQuantBlock;
  for (uint32_t m = 0; m < x.rows; ++m) {
    for (uint32_t n = 0; n < matrix.rows; ++n) {
      const std::vector<float> w = matrix.dequantised_row(n);
      double value = 0;
      double norm = 0;
      for (uint32_t k = 0; k < matrix.columns; ++k) {
        const double x_k = static_cast<double>(x.scales[m * blocks + k / kQuantBlock]) *
                           x.values[m * x.columns + k];
        value += x_k * w[k];
        // |scale * q| <= |w| + |offset|, and |offset| is at most 8 * 0.1 (Q4_0) or 0.5 (Q4_1) in
        // random_matrix.
        norm += std::fabs(x_k) * (std::fabs(w[k]) + 2 * 0.8);
      }
      expected.value.push_back(value);
      expected.bound.push_back((6 + 2 * blocks) * kRounding * norm);
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
      const GgufMatrix matrix = random_matrix(format, shape.rows, shape.columns, rng);
      const PackedMatrix packed(kernels(), matrix);
      const ActivationRows x(kernels(), batch, shape.columns,
                             random_floats(rng, static_cast<size_t>(batch) * shape.columns));
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
    const GgufMatrix matrix = random_matrix(format, 19, 576, rng);
    const PackedMatrix packed(scalar_kernels, matrix);
    const ActivationRows x(scalar_kernels, 3, 576, random_floats(rng, 3 * 576));
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
    const uint32_t columns = 576;
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

// With all scales 1 and whole numbers below 2^24 every step is exact: any difference is a wrong
// integer.
TEST_P(KernelContract, IntegerPartsAreExact) {
  const KernelTable& scalar_kernels = *supported_kernels().back();
  for (WeightFormat format : kQuantisedFormats) {
    if (kind(format) != ActivationKind::kQ8) continue;
    for (uint32_t batch : kBatches) {
      SCOPED_TRACE(testing::Message() << name_of(format) << ", batch and seed " << batch);
      Rng rng(batch);
      const uint32_t columns = 288;
      GgufMatrix matrix = random_matrix(format, 35, columns, rng);
      for_each_block(matrix, [&](std::byte* block, size_t) {
        put_f16(block, 1.0f);
        if (format == WeightFormat::kQ4_1) put_f16(block + 2, static_cast<float>(rng.below(9)) - 4);
      });
      ActivationRows x(kernels(), batch, columns, std::vector<float>(batch * columns));
      for (size_t b = 0; b < x.scales.size(); ++b) {
        x.scales[b] = 1;
        x.sums[b] = 0;
        for (uint32_t i = 0; i < kQuantBlock; ++i) {
          const int value = static_cast<int>(rng.below(255)) - 127;
          x.values[b * kQuantBlock + i] = static_cast<int8_t>(value);
          x.sums[b] += static_cast<float>(value);
        }
      }
      const PackedMatrix packed(kernels(), matrix);
      const PackedMatrix reference(scalar_kernels, matrix);
      std::vector<float> expected(batch * matrix.rows);
      scalar::gemm_q8({format, reference.data(), matrix.rows, x.view(ActivationKind::kQ8),
                       expected.data(), matrix.rows, 0, matrix.rows});
      ASSERT_EQ(multiply(packed, matrix, x), expected);
    }
  }
}

TEST_P(KernelContract, ExtremeValuesDoNotOverflow) {
  const KernelTable& scalar_kernels = *supported_kernels().back();
  for (WeightFormat format : kQuantisedFormats) {
    if (kind(format) != ActivationKind::kQ8) continue;
    for (int weight_byte : {0x00, 0x7f, 0x80, 0x81, 0xff}) {
      for (int value : {-127, 127, 0}) {
        SCOPED_TRACE(testing::Message()
                     << name_of(format) << " bytes " << weight_byte << ", activations " << value);
        const uint32_t columns = 288;
        GgufMatrix matrix = empty_matrix(format, 16, columns);
        for_each_block(matrix, [&](std::byte* block, size_t bytes) {
          std::memset(block, weight_byte, bytes);
          put_f16(block, 1.0f);
          if (format == WeightFormat::kQ4_1) put_f16(block + 2, -7.0f);
        });
        ActivationRows x(kernels(), 7, columns, std::vector<float>(7 * columns));
        std::fill(x.values.begin(), x.values.end(), static_cast<int8_t>(value));
        std::fill(x.scales.begin(), x.scales.end(), 1.0f);
        std::fill(x.sums.begin(), x.sums.end(), static_cast<float>(value) * kQuantBlock);
        const PackedMatrix packed(kernels(), matrix);
        const PackedMatrix reference(scalar_kernels, matrix);
        std::vector<float> expected(7 * matrix.rows);
        scalar::gemm_q8({format, reference.data(), matrix.rows, x.view(ActivationKind::kQ8),
                         expected.data(), matrix.rows, 0, matrix.rows});
        ASSERT_EQ(multiply(packed, matrix, x), expected);
      }
    }
  }
}

TEST_P(KernelContract, ZeroAndDenormalActivationsGiveZeros) {
  for (WeightFormat format : kFormats) {
    SCOPED_TRACE(name_of(format) + ", seed 3");
    Rng rng(3);
    const GgufMatrix matrix = random_matrix(format, 20, 64, rng);
    const PackedMatrix packed(kernels(), matrix);
    std::vector<float> tiny(2 * 64, 0.0f);
    for (uint32_t k = 0; k < 64; ++k) tiny[64 + k] = 1e-40f;
    const ActivationRows x(kernels(), 2, 64, tiny);
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
      const GgufMatrix matrix = random_matrix(format, shape.rows, shape.columns, rng);
      const PackedMatrix packed(kernels(), matrix);
      const ActivationRows x(kernels(), 37, shape.columns,
                             random_floats(rng, 37ull * shape.columns));
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
      const GgufMatrix matrix = random_matrix(format, rows, 64, rng);
      const PackedMatrix packed(kernels(), matrix);
      const ActivationRows x(kernels(), 7, 64, random_floats(rng, 7 * 64));
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
    const GgufMatrix matrix = random_matrix(format, 21, 96, rng);
    const PackedMatrix packed(kernels(), matrix);
    const ActivationRows x(kernels(), 7, 96, random_floats(rng, 7 * 96));
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
    const GgufMatrix matrix = random_matrix(format, 21, 160, rng);
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
    const GgufMatrix matrix = random_matrix(format, 75, 96, rng);
    const PackedMatrix whole(kernels(), matrix);
    AlignedBuffer<std::byte> parts(whole.bytes(), 0x3c);
    for (uint32_t begin : {48u, 0u, 16u}) {  // in no particular order, as workers do
      const uint32_t end = begin == 0 ? 16 : begin == 16 ? 48 : 75;
      kernels().pack({format, matrix.data(), 75, 96, begin, end, parts.get()});
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

}  // namespace
}  // namespace pacer::kernels
