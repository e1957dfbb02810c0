// out[m][n] = dot(x row m, weight row n) for F32, F16 and BF16 weights, f32 activations.
//
// A tile is up to 6 activation rows x 16 weight rows, one multiply-add per 8 weights, weights
// widened once per tile. Every (m, n) is one chain of multiply-adds over the columns in order,
// whatever the tile.
//
// Bound: 1-4 rows memory (one chain of 16 rows reads 32 bytes of f16 in 4 cycles, above what memory
// gives); from 5 rows the multiply-adds, 2 per cycle. Measured on one core of a Sapphire Rapids
// guest: F16 16 GB/s at 1 row (all that it reads), 13.5 products a cycle of 16 at 32 rows.

#include <immintrin.h>

#include "kernels/avx2/kernels.h"
#include "kernels/avx2/simd.h"
#include "kernels/packed_layout.h"

namespace pacer::kernels::avx2 {

namespace {

constexpr uint32_t kTileRows = 6;
constexpr uint32_t kPrefetchBytes = 2048;
constexpr size_t kStretchBytes =
    512 << 10;  // weights that all tiles go through before the next: stay in L2

// Eight values of a format as f32.
struct F32 {
  enum : uint32_t { kValueBytes = 4 };
  static inline __m256 load(const uint8_t* at) { return _mm256_load_ps((const float*)at); }
};
struct F16 {
  enum : uint32_t { kValueBytes = 2 };
  static inline __m256 load(const uint8_t* at) { return load_f16((const uint16_t*)at); }
};
struct BF16 {
  enum : uint32_t { kValueBytes = 2 };
  static inline __m256 load(const uint8_t* at) {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_load_si128((const __m128i*)at));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));  // bf16 is the upper half of an f32
  }
};

template <class Format, uint32_t kRows>
void multiply_group(const uint8_t* weights, const float* x, uint32_t columns, float* out,
                    size_t out_stride, uint32_t lanes, bool accumulate) {
  constexpr uint32_t kColumnBytes = kRowGroup * Format::kValueBytes;
  __m256 low[kRows];
  __m256 high[kRows];
#pragma GCC unroll 8
  for (uint32_t r = 0; r < kRows; ++r) {
    low[r] = high[r] = _mm256_setzero_ps();
    if (accumulate) load_lanes(out + r * out_stride, lanes, &low[r], &high[r]);
  }

  const uint8_t* column = weights;
  for (uint32_t k = 0; k < columns; ++k, column += kColumnBytes) {
    _mm_prefetch((const char*)column + kPrefetchBytes, _MM_HINT_T0);
    const __m256 w_low = Format::load(column);
    const __m256 w_high = Format::load(column + kColumnBytes / 2);
#pragma GCC unroll 8
    for (uint32_t r = 0; r < kRows; ++r) {
      const __m256 x_k = _mm256_broadcast_ss(x + (size_t)r * columns + k);
      low[r] = _mm256_fmadd_ps(w_low, x_k, low[r]);
      high[r] = _mm256_fmadd_ps(w_high, x_k, high[r]);
    }
  }

#pragma GCC unroll 8
  for (uint32_t r = 0; r < kRows; ++r) {
    store_lanes(out + r * out_stride, lanes, low[r], high[r]);
  }
}

template <class Format>
void multiply_group_rows(uint32_t rows, const uint8_t* weights, const float* x, uint32_t columns,
                         float* out, size_t out_stride, uint32_t lanes, bool accumulate) {
  switch (rows) {
    case 1:
      return multiply_group<Format, 1>(weights, x, columns, out, out_stride, lanes, accumulate);
    case 2:
      return multiply_group<Format, 2>(weights, x, columns, out, out_stride, lanes, accumulate);
    case 3:
      return multiply_group<Format, 3>(weights, x, columns, out, out_stride, lanes, accumulate);
    case 4:
      return multiply_group<Format, 4>(weights, x, columns, out, out_stride, lanes, accumulate);
    case 5:
      return multiply_group<Format, 5>(weights, x, columns, out, out_stride, lanes, accumulate);
    default:
      return multiply_group<Format, 6>(weights, x, columns, out, out_stride, lanes, accumulate);
  }
}

template <class Format>
void multiply_stretch(const GemmArgs& args, uint32_t begin, uint32_t end) {
  const uint32_t tiles = (args.x.rows + kTileRows - 1) / kTileRows;
  uint32_t m = 0;
  for (uint32_t tile = 0; tile < tiles; ++tile) {
    const uint32_t rows = (args.x.rows - m + tiles - tile - 1) / (tiles - tile);
    for (uint32_t n = begin; n < end; n += kRowGroup) {
      const uint8_t* group = packed::group_at(args.format, args.packed, args.x.columns, n);
      const uint32_t lanes = end - n < kRowGroup ? end - n : (uint32_t)kRowGroup;
      multiply_group_rows<Format>(rows, group, args.x.f32 + (size_t)m * args.x.columns,
                                  args.x.columns, args.out + m * args.out_stride + n,
                                  args.out_stride, lanes, args.accumulate);
    }
    m += rows;
  }
}

template <class Format>
void multiply(const GemmArgs& args) {
  const size_t groups = kStretchBytes / packed::group_bytes(args.format, args.x.columns);
  const uint32_t step = kRowGroup * (groups == 0 ? 1 : (uint32_t)groups);
  for (uint32_t n = args.row_begin; n < args.row_end; n += step) {
    multiply_stretch<Format>(args, n, args.row_end - n < step ? args.row_end : n + step);
  }
}

}  // namespace

void gemm_float(const GemmArgs& args) {
  switch (args.format) {
    case WeightFormat::kF32:
      return multiply<F32>(args);
    case WeightFormat::kF16:
      return multiply<F16>(args);
    case WeightFormat::kBF16:
      return multiply<BF16>(args);
    default:
      __builtin_trap();  // gemm() sends the other formats elsewhere
  }
}

void gemm(const GemmArgs& args) {
  if (packed::is_quantised(args.format)) {
    gemm_quantised(args);
  } else {
    gemm_float(args);
  }
}

}  // namespace pacer::kernels::avx2
