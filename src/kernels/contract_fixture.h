// What the contract tests share: random matrices in GGUF form, packed matrices, activations in both
// forms.
//
// Included by tests alone. Every random thing comes from a seed that the test prints
// (SCOPED_TRACE).
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/math.h"
#include "base/rng.h"
#include "kernels/kernel_table.h"
#include "kernels/scalar/gguf_rows.h"
#include "tensor/dtype.h"

namespace pacer::kernels {

constexpr WeightFormat kFormats[] = {WeightFormat::kF32,  WeightFormat::kF16,  WeightFormat::kBF16,
                                     WeightFormat::kQ4_0, WeightFormat::kQ4_1, WeightFormat::kQ8_0};
constexpr WeightFormat kQuantisedFormats[] = {WeightFormat::kQ4_0, WeightFormat::kQ4_1,
                                              WeightFormat::kQ8_0};

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

#define PACER_FOR_EVERY_TIER(suite)                                                            \
  INSTANTIATE_TEST_SUITE_P(                                                                    \
      Tiers, suite, testing::ValuesIn(supported_kernels().begin(), supported_kernels().end()), \
      [](const auto& tier) { return std::string(tier.param->name); })

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

// Where the f16 scale of a quantised block is, its f16 minimum or 0, and its values.
inline size_t values_offset(WeightFormat format) {
  return format == WeightFormat::kQ4_1 ? 4 : 2;
}

inline void put_f16(std::byte* at, float value) {
  const uint16_t bits = tensor::f32_to_f16(value);
  std::memcpy(at, &bits, 2);
}

// Calls f(block bytes) for every quantised block of the matrix.
template <class F>
void for_each_block(GgufMatrix& matrix, F f) {
  const size_t block_bytes = tensor::row_bytes(scalar::dtype_of(matrix.format), kQuantBlock);
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
        put_f16(block, random_float(rng, 0.1f));
        if (format == WeightFormat::kQ4_1) put_f16(block + 2, random_float(rng, 0.5f));
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
