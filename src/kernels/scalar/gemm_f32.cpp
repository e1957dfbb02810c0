// The oracle: weights dequantised to f32 by their definition, then plain f32 dot products.
//
// A few weight rows are dequantised once and used for all activation rows. Every dot has the same
// eight partial sums, added in the same order, whichever loop computes it. They are spelled as two
// vectors of four, which every x86-64 has; as arrays of floats gcc 12 keeps them scalar, at a
// tenth of the speed (measured).
//
// Bound: arithmetic of baseline x86-64 (SSE2, one multiply and one add for each weight). Measured:
// 33 GFLOP/s on one core of a Sapphire Rapids guest from 32 rows on, 3.5 at one row, where the
// dequantisation is most of it.

#include <cstring>

#include "kernels/scalar/gguf_rows.h"
#include "kernels/scalar/kernels.h"

namespace pacer::kernels::scalar {

namespace {

constexpr uint32_t kChunk =
    1024;  // columns dequantised at a time: 4 rows of them are 16 KiB, a third of L1
constexpr uint32_t kRows = 4;  // weight rows that share one pass over the activations
constexpr uint32_t kPartials = 8;

using Four = float __attribute__((vector_size(16)));

// Partial sum i adds up the products of the columns i, i + 8, i + 16, ...
struct Partials {
  Four low;   // 0..3
  Four high;  // 4..7
};

inline Four load(const float* at) {
  Four four;
  std::memcpy(&four, at, sizeof four);
  return four;
}

inline float sum_of(const Partials& p) {
  const Four four = p.low + p.high;
  return (four[0] + four[2]) + (four[1] + four[3]);
}

// kDots dots of one x with as many weight rows.
template <uint32_t kDots>
void dots(const float* x, const float (*w)[kChunk], uint32_t count, float* result) {
  Partials sum[kDots] = {};
  uint32_t k = 0;
  for (; k + kPartials <= count; k += kPartials) {
    const Four x_low = load(x + k);
    const Four x_high = load(x + k + 4);
    for (uint32_t r = 0; r < kDots; ++r) {
      sum[r].low += x_low * load(w[r] + k);
      sum[r].high += x_high * load(w[r] + k + 4);
    }
  }
  for (uint32_t i = 0; k + i < count; ++i) {  // fewer than eight are left
    for (uint32_t r = 0; r < kDots; ++r) {
      Four& part = i < 4 ? sum[r].low : sum[r].high;
      part[i % 4] += x[k + i] * w[r][k + i];
    }
  }
  for (uint32_t r = 0; r < kDots; ++r) result[r] = sum_of(sum[r]);
}

// Columns [k, k + count) of weight rows [n, n + row_count), for every activation row.
void add_chunk(const GemmArgs& args, uint32_t n, uint32_t row_count, uint32_t k, uint32_t count) {
  const tensor::DType dtype = dtype_of(args.format);
  const size_t skipped = tensor::row_bytes(dtype, k);
  float w[kRows][kChunk];
  for (uint32_t r = 0; r < row_count; ++r) {
    const std::byte* row = row_at(args.format, args.packed, args.x.columns, n + r);
    tensor::dequantize(dtype, row + skipped, count, w[r]);
  }

  for (uint32_t m = 0; m < args.x.rows; ++m) {
    const float* x = args.x.f32 + static_cast<size_t>(m) * args.x.columns + k;
    float* out = args.out + m * args.out_stride + n;
    float result[kRows];
    if (row_count == kRows) {
      dots<kRows>(x, w, count, result);
    } else {
      for (uint32_t r = 0; r < row_count; ++r) dots<1>(x, w + r, count, result + r);
    }
    const bool replace = k == 0 && !args.accumulate;
    for (uint32_t r = 0; r < row_count; ++r) out[r] = replace ? result[r] : out[r] + result[r];
  }
}

}  // namespace

void gemm_f32(const GemmArgs& args) {
  CHECK(args.x.f32 != nullptr, "gemm_f32 without f32 activations");
  for (uint32_t n = args.row_begin; n < args.row_end; n += kRows) {
    const uint32_t row_count = args.row_end - n < kRows ? args.row_end - n : kRows;
    for (uint32_t k = 0; k < args.x.columns; k += kChunk) {
      const uint32_t count = args.x.columns - k < kChunk ? args.x.columns - k : kChunk;
      add_chunk(args, n, row_count, k, count);
    }
  }
}

}  // namespace pacer::kernels::scalar
