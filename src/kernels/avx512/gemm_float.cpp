// out[m][n] = dot(x row m, weight row n) for F32, F16 and BF16 weights, f32 activations.
//
// A tile is up to 16 activation rows x 16 weight rows (up to 6 x 32), one multiply-add per 16
// weights, weights widened once per tile. Every (m, n) is one chain of multiply-adds over the
// columns in order, whatever the tile. The rows of a tile are transposed into a panel, column after
// column, so that operands are one pointer plus a constant; a tile is padded with rows of zeros to
// one of a few sizes.
//
// Bound: 1-4 rows memory; from 8 rows the multiply-adds, 2 per cycle. Measured on one core of a
// Sapphire Rapids guest: F16 at 1 row 54 GB/s from L2, far above what memory gives; at 16 rows 0.68
// of the multiply-add peak of the same run.

#include <immintrin.h>

#include "kernels/avx512/kernels.h"
#include "kernels/avx512/simd.h"
#include "kernels/packed_layout.h"

namespace pacer::kernels::avx512 {

namespace {

constexpr uint32_t kTileRowsMax = 16;
constexpr uint32_t kPanelColumns = 512;  // 32 KiB for 16 rows: most of L1
constexpr uint32_t kPrefetchBytes = 2048;
constexpr size_t kStretchBytes = 512 << 10;  // weights that all tiles go through before the next

// Sixteen values of a format as f32.
struct F32 {
  enum : uint32_t { kValueBytes = 4 };
  PACER_INLINE __m512 load(const uint8_t* at) { return _mm512_load_ps(at); }
};
struct F16 {
  enum : uint32_t { kValueBytes = 2 };
  PACER_INLINE __m512 load(const uint8_t* at) { return load_f16(at); }
};
struct BF16 {
  enum : uint32_t { kValueBytes = 2 };
  PACER_INLINE __m512 load(const uint8_t* at) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_load_si256((const __m256i*)at));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));  // bf16 is the upper half of an f32
  }
};

// The stretch of a group that one panel covers, and where its results go.
struct GroupTask {
  const uint8_t* weights;
  size_t group_bytes;  // from one group to the next
  const float* x;      // [columns][tile rows]
  uint32_t columns;
  float* out;
  size_t out_stride;
  uint32_t rows;   // activation rows that exist; the tile may be padded
  uint32_t lanes;  // weight rows that exist, 1 .. 16 * groups
  bool first;      // start from zero; else go on from what is in out
};

// The weight rows of group g that exist.
PACER_INLINE __mmask16 lanes_of(const GroupTask& task, uint32_t g) {
  const uint32_t before = g * kRowGroup;
  const uint32_t left = task.lanes > before ? task.lanes - before : 0;
  return first_lanes(left < kRowGroup ? left : (uint32_t)kRowGroup);
}

// kRows activation rows times kGroups groups of weight rows.
template <class Format, uint32_t kRows, uint32_t kGroups>
void multiply_groups(const GroupTask& task) {
  constexpr uint32_t kColumnBytes = kRowGroup * Format::kValueBytes;
  __m512 total[kGroups][kRows];
#pragma GCC unroll 2
  for (uint32_t g = 0; g < kGroups; ++g) {
    const float* out = task.out + g * kRowGroup;
#pragma GCC unroll 16
    for (uint32_t r = 0; r < kRows; ++r) {
      total[g][r] = _mm512_setzero_ps();
      if (!task.first && r < task.rows) {
        total[g][r] = _mm512_maskz_loadu_ps(lanes_of(task, g), out + r * task.out_stride);
      }
    }
  }

  const uint8_t* column = task.weights;
  const float* x = task.x;
  for (uint32_t k = 0; k < task.columns; ++k, column += kColumnBytes, x += kRows) {
#pragma GCC unroll 2
    for (uint32_t g = 0; g < kGroups; ++g) {
      const uint8_t* at = column + g * task.group_bytes;
      _mm_prefetch((const char*)at + kPrefetchBytes, _MM_HINT_T0);
      const __m512 w = Format::load(at);
#pragma GCC unroll 16
      for (uint32_t r = 0; r < kRows; ++r) {
        total[g][r] = _mm512_fmadd_ps(w, _mm512_set1_ps(x[r]), total[g][r]);
      }
    }
  }

#pragma GCC unroll 2
  for (uint32_t g = 0; g < kGroups; ++g) {
    float* out = task.out + g * kRowGroup;
#pragma GCC unroll 16
    for (uint32_t r = 0; r < kRows; ++r) {
      if (r >= task.rows) break;
      _mm512_mask_storeu_ps(out + r * task.out_stride, lanes_of(task, g), total[g][r]);
    }
  }
}

template <class Format, uint32_t kRows>
void multiply_some_groups(uint32_t groups, const GroupTask& task) {
  if (groups == 2) {
    multiply_groups<Format, kRows, 2>(task);
  } else {
    multiply_groups<Format, kRows, 1>(task);
  }
}

template <class Format>
void multiply_tile_groups(uint32_t tile_rows, uint32_t groups, const GroupTask& task) {
  switch (tile_rows) {
    case 1:
      return multiply_some_groups<Format, 1>(groups, task);
    case 2:
      return multiply_some_groups<Format, 2>(groups, task);
    case 4:
      return multiply_some_groups<Format, 4>(groups, task);
    case 6:
      return multiply_some_groups<Format, 6>(groups, task);
    case 8:
      return multiply_groups<Format, 8, 1>(task);
    case 12:
      return multiply_groups<Format, 12, 1>(task);
    default:
      return multiply_groups<Format, 16, 1>(task);
  }
}

// Columns [first, first + columns) of rows [m, m + rows), transposed.
void fill_panel(const Activations& x, uint32_t m, uint32_t rows, uint32_t tile_rows, uint32_t first,
                uint32_t columns, float* panel) {
  for (uint32_t r = 0; r < tile_rows; ++r) {
    const float* from = x.f32 + (size_t)(m + (r < rows ? r : 0)) * x.columns + first;
    for (uint32_t k = 0; k < columns; ++k) panel[k * tile_rows + r] = r < rows ? from[k] : 0.0f;
  }
}

// One tile of rows times weight rows [begin, end).
template <class Format>
void multiply_tile(const GemmArgs& args, uint32_t m, uint32_t rows, uint32_t begin, uint32_t end) {
  const uint32_t columns = args.x.columns;
  const uint32_t tile_rows = padded_rows(rows);
  // A single row is its own panel.
  const uint32_t panel_columns = rows == 1 ? columns : kPanelColumns;
  alignas(64) float panel[kPanelColumns * kTileRowsMax];
  for (uint32_t first = 0; first < columns; first += panel_columns) {
    GroupTask task;
    task.group_bytes = packed::group_bytes(args.format, columns);
    task.columns = columns - first < panel_columns ? columns - first : panel_columns;
    task.x = panel;
    if (rows == 1) {
      task.x = args.x.f32 + (size_t)m * columns;
    } else {
      fill_panel(args.x, m, rows, tile_rows, first, task.columns, panel);
    }
    task.out_stride = args.out_stride;
    task.rows = rows;
    task.first = first == 0 && !args.accumulate;
    uint32_t groups = 1;
    for (uint32_t n = begin; n < end; n += groups * kRowGroup) {
      // A group is a single chain of multiply-adds for each row; fewer than 8 cannot hide their
      // latency.
      groups = tile_rows < 8 && end - n > kRowGroup ? 2 : 1;
      const uint8_t* group = packed::group_at(args.format, args.packed, columns, n);
      task.weights = group + (size_t)first * kRowGroup * Format::kValueBytes;
      task.out = args.out + m * args.out_stride + n;
      task.lanes = end - n < groups * kRowGroup ? end - n : groups * kRowGroup;
      multiply_tile_groups<Format>(tile_rows, groups, task);
    }
  }
}

template <class Format>
void multiply(const GemmArgs& args) {
  const size_t groups = kStretchBytes / packed::group_bytes(args.format, args.x.columns);
  const uint32_t step = kRowGroup * (groups == 0 ? 1 : (uint32_t)groups);
  const uint32_t tiles = (args.x.rows + kTileRowsMax - 1) / kTileRowsMax;
  for (uint32_t n = args.row_begin; n < args.row_end; n += step) {
    const uint32_t end = args.row_end - n < step ? args.row_end : n + step;
    uint32_t m = 0;
    for (uint32_t tile = 0; tile < tiles; ++tile) {
      const uint32_t rows = (args.x.rows - m + tiles - tile - 1) / (tiles - tile);
      multiply_tile<Format>(args, m, rows, n, end);
      m += rows;
    }
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

}  // namespace pacer::kernels::avx512
