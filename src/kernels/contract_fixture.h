// What the contract tests share: random matrices in GGUF form, packed matrices, activations in both
// forms.
//
// Included by tests alone. Every random thing comes from a seed that the test prints
// (SCOPED_TRACE).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/math.h"
#include "base/rng.h"
#include "kernels/kernel_table.h"
#include "kernels/scalar/gguf_rows.h"
#include "tensor/dtype.h"

namespace pacer::kernels {

constexpr WeightFormat kFormats[] = {
    WeightFormat::kF32,  WeightFormat::kF16,   WeightFormat::kBF16, WeightFormat::kQ4_0,
    WeightFormat::kQ4_1, WeightFormat::kQ5_0,  WeightFormat::kQ5_1, WeightFormat::kQ8_0,
    WeightFormat::kQ2K,  WeightFormat::kQ3K,   WeightFormat::kQ4K,  WeightFormat::kQ5K,
    WeightFormat::kQ6K,  WeightFormat::kIQ4NL, WeightFormat::kIQ4XS};
static_assert(std::size(kFormats) == kWeightFormatCount);
constexpr std::span<const WeightFormat> kQuantisedFormats =
    std::span<const WeightFormat>(kFormats).subspan(3);

constexpr double kRounding = 0x1p-24;  // relative error of one f32 operation

inline std::string name_of(WeightFormat format) {
  return std::string(tensor::dtype_info(scalar::dtype_of(format))->name);
}

// Every test of a contract runs once for each tier of this machine.
class EveryTier : public testing::TestWithParam<const KernelTable*> {
 protected:
  const KernelTable& kernels() const { return *GetParam(); }
  ActivationKind kind(WeightFormat format) const {
    return kernels().activation_kind[static_cast<int>(format)];
  }
};

// The name of a tier as GoogleTest allows it in the name of a test.
inline std::string test_name_of(const KernelTable& tier) {
  std::string name = tier.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

#define PACER_FOR_EVERY_TIER(suite)                                                            \
  INSTANTIATE_TEST_SUITE_P(                                                                    \
      Tiers, suite, testing::ValuesIn(supported_kernels().begin(), supported_kernels().end()), \
      [](const auto& tier) { return test_name_of(*tier.param); })

inline float random_float(Rng& rng, float limit) {
  return static_cast<float>((rng.uniform() * 2 - 1) * limit);
}

inline std::vector<float> random_floats(Rng& rng, size_t count, float limit = 1.0f) {
  std::vector<float> values(count);
  for (float& v : values) v = random_float(rng, limit);
  return values;
}

// Memory that starts on a cache line, filled with a byte.
template <class T>
class AlignedBuffer {
 public:
  AlignedBuffer(size_t count, int fill)
      : data_(
            static_cast<T*>(std::aligned_alloc(64, round_up<size_t>(count * sizeof(T) + 1, 64)))) {
    std::memset(static_cast<void*>(data_.get()), fill, count * sizeof(T));
  }
  T* get() { return data_.get(); }
  const T* get() const { return data_.get(); }

 private:
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  std::unique_ptr<T, Free> data_;
};

// A weight matrix as a GGUF file has it, at an odd address as in a file.
struct GgufMatrix {
  WeightFormat format;
  uint32_t rows;
  uint32_t columns;
  std::vector<std::byte> storage;

  size_t row_bytes() const { return tensor::row_bytes(scalar::dtype_of(format), columns); }
  size_t bytes() const { return rows * row_bytes(); }
  std::byte* data() { return storage.data() + 1; }
  const std::byte* data() const { return storage.data() + 1; }

  std::vector<float> dequantised_row(uint32_t row) const {
    std::vector<float> out(columns);
    tensor::dequantize(scalar::dtype_of(format), data() + row * row_bytes(), columns, out.data());
    return out;
  }
};

inline void put_f16(std::byte* at, float value) {
  const uint16_t bits = tensor::f32_to_f16(value);
  std::memcpy(at, &bits, 2);
}

// What tests must know of a GGUF block to choose its scales: where its f16 d is, and the f16 that
// is its minimum or that its minima count in (-1: none), and where its packed integer scales are.
// `unit` brings the largest weight of random bits near 1 when d is about that.
struct BlockPlan {
  int d;
  int m;
  int scales;
  int scales_bytes;
  float d_unit;
  float m_unit;
};

inline BlockPlan plan_of(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ4_0:
      return {0, -1, 0, 0, 1.0f / 8, 0};
    case WeightFormat::kQ4_1:
      return {0, 2, 0, 0, 1.0f / 15, 1};
    case WeightFormat::kQ5_0:
      return {0, -1, 0, 0, 1.0f / 16, 0};
    case WeightFormat::kQ5_1:
      return {0, 2, 0, 0, 1.0f / 31, 1};
    case WeightFormat::kQ8_0:
    case WeightFormat::kIQ4NL:
      return {0, -1, 0, 0, 1.0f / 127, 0};
    case WeightFormat::kQ2K:
      return {80, 82, 0, 16, 1.0f / (15 * 3), 1.0f / 15};
    case WeightFormat::kQ3K:
      return {108, -1, 96, 12, 1.0f / (32 * 4), 0};
    case WeightFormat::kQ4K:
      return {0, 2, 4, 12, 1.0f / (63 * 15), 1.0f / 63};
    case WeightFormat::kQ5K:
      return {0, 2, 4, 12, 1.0f / (63 * 31), 1.0f / 63};
    case WeightFormat::kQ6K:
      return {208, -1, 192, 16, 1.0f / (128 * 32), 0};
    case WeightFormat::kIQ4XS:
      return {0, -1, 2, 6, 1.0f / (32 * 127), 0};
    default:
      return {};
  }
}

// The least number of columns, from `columns` up, that are whole blocks of the format.
inline uint32_t whole_blocks(WeightFormat format, uint32_t columns) {
  const auto block = std::max(tensor::dtype_info(scalar::dtype_of(format))->block_values, 32u);
  return round_up(columns, block);
}

// Calls f(block bytes) for every quantised block of the matrix.
template <class F>
void for_each_block(GgufMatrix& matrix, F f) {
  const size_t block_bytes = tensor::dtype_info(scalar::dtype_of(matrix.format))->block_bytes;
  for (size_t at = 0; at < matrix.bytes(); at += block_bytes) f(matrix.data() + at, block_bytes);
}

inline GgufMatrix empty_matrix(WeightFormat format, uint32_t rows, uint32_t columns) {
  GgufMatrix matrix{format, rows, columns, {}};
  matrix.storage.resize(matrix.bytes() + 1);
  return matrix;
}

inline GgufMatrix random_matrix(WeightFormat format, uint32_t rows, uint32_t columns, Rng& rng) {
  GgufMatrix matrix = empty_matrix(format, rows, columns);
  switch (format) {
    case WeightFormat::kF32:
    case WeightFormat::kF16:
    case WeightFormat::kBF16:
      for (size_t i = 0; i < static_cast<size_t>(rows) * columns; ++i) {
        const float value = random_float(rng, 1.0f);
        const uint16_t bits =
            format == WeightFormat::kF16 ? tensor::f32_to_f16(value) : tensor::f32_to_bf16(value);
        if (format == WeightFormat::kF32) {
          std::memcpy(matrix.data() + i * 4, &value, 4);
        } else {
          std::memcpy(matrix.data() + i * 2, &bits, 2);
        }
      }
      break;
    default:
      for_each_block(matrix, [&](std::byte* block, size_t bytes) {
        for (size_t i = 0; i < bytes; ++i) block[i] = static_cast<std::byte>(rng.next());
        const BlockPlan plan = plan_of(format);
        put_f16(block + plan.d, random_float(rng, plan.d_unit));
        if (plan.m >= 0) put_f16(block + plan.m, random_float(rng, plan.m_unit));
      });
  }
  return matrix;
}

// A matrix in a tier's layout. Starts out as garbage, so that what pack forgets to write shows.
class PackedMatrix {
 public:
  PackedMatrix(const KernelTable& kernels, const GgufMatrix& matrix)
      : bytes_(kernels.packed_bytes(matrix.format, matrix.rows, matrix.columns)),
        data_(bytes_, 0xa5) {
    kernels.pack(
        {matrix.format, matrix.data(), matrix.rows, matrix.columns, 0, matrix.rows, data_.get()});
  }
  const void* data() const { return data_.get(); }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_;
  AlignedBuffer<std::byte> data_;
};

// Rows of activations, in f32 and quantised by the tier.
struct ActivationRows {
  uint32_t rows;
  uint32_t columns;
  std::vector<float> f32;
  std::vector<int8_t> values;
  std::vector<float> scales;
  std::vector<float> sums;
  std::vector<float> half_sums;

  ActivationRows(const KernelTable& kernels, uint32_t row_count, uint32_t column_count,
                 std::vector<float> x)
      : rows(row_count),
        columns(column_count),
        f32(std::move(x)),
        values(f32.size()),
        scales(f32.size() / kQuantBlock),
        sums(scales.size()),
        half_sums(2 * scales.size()) {
    const size_t blocks = columns / kQuantBlock;
    for (uint32_t m = 0; m < rows; ++m) {
      kernels.quantize_q8(&f32[m * columns], columns,
                          {&values[m * columns], &scales[m * blocks], &sums[m * blocks],
                           &half_sums[m * 2 * blocks]});
    }
  }

  // Rows [first, first + count) in the given form.
  Activations view(ActivationKind kind, uint32_t first, uint32_t count) const {
    const size_t blocks = columns / kQuantBlock;
    if (kind == ActivationKind::kF32) {
      return {count, columns, &f32[first * columns], nullptr, nullptr, nullptr, nullptr};
    }
    return {count,
            columns,
            nullptr,
            &values[first * columns],
            &scales[first * blocks],
            &sums[first * blocks],
            &half_sums[first * 2 * blocks]};
  }
  Activations view(ActivationKind kind) const { return view(kind, 0, rows); }
};

}  // namespace pacer::kernels
