// out[m][n] = dot(x row m, weight row n) for Q4_0, Q4_1 and Q8_0 weights and int8 activations.
// Contract: scalar/gemm_q8.h.
//
// A tile is up to 6 activation rows x 8 weight rows: the f32 totals and the integer sums of a block
// stay in registers, and weights are widened once for all rows of the tile. Every (m, n) goes
// through the same instructions in the same order of blocks whatever the tile, so results do not
// depend on how many rows a call has.
//
//   1 row     streams the weights once, prefetching ahead
//   2-6 rows  the same stream, with the rows in a panel
//   more      tiles of 4-6 rows over a stretch of weights that stays in L2
//
// Bound: memory at 1-4 rows, then vector instructions: some 23 for every 256 Q4 products (8
// maddubs, 7 additions, 5 for the scales, the rest widening), over 3 ports. Measured on one core of
// a Sapphire Rapids guest that reads 13.5-15.5 GB/s: Q4_1 at 1 row 14.5-15.5 GB/s from memory (all
// of it) and 27 GB/s from L3; at 6 rows and more 0.20 TOP/s (28 products a cycle, of 38 without
// widening); Q8_0 15.4 GB/s and 0.12 TOP/s.

#include <immintrin.h>

#include "kernels/avx2/block_dot.h"
#include "kernels/avx2/kernels.h"
#include "kernels/avx2/layout.h"
#include "kernels/avx2/panel.h"

namespace pacer::kernels::avx2 {

namespace {

// A group's two halves of 8 rows take turns every kTurnBlocks, so that both read a line while it is
// in L1.
constexpr uint32_t kTurnBlocks = 8;
constexpr uint32_t kPrefetchBytes =
    3840;  // ahead of the reads; twice as much was 15 % slower (measured)
constexpr size_t kStretchBytes =
    256 << 10;  // weights that all tiles go through before the next: stay in L2

// The stretch of a group that one panel covers, and where its results go.
struct GroupTask {
  const uint8_t* weights;
  uint32_t blocks;
  Panel x;
  float* out;
  size_t out_stride;
  uint32_t lanes;  // weight rows that exist, 1..16
  bool first;      // start from zero; else go on from what is in out
};

// Asks for the next lines of the stream; a half asks for its share of a block.
template <class Format>
PACER_INLINE void prefetch_share(const uint8_t* block, uint32_t half) {
  constexpr uint32_t kShare = Format::kBlockBytes / 2;
  const char* ahead = (const char*)block + kPrefetchBytes + half * kShare;
#pragma GCC unroll 5
  for (uint32_t i = 0; i < kShare; i += kLineBytes) _mm_prefetch(ahead + i, _MM_HINT_T0);
}

// totals[r] += the blocks [first, first + count) of one half of the group.
template <class Format, uint32_t kRows>
PACER_INLINE void multiply_half(const GroupTask& task, uint32_t half, uint32_t first,
                                uint32_t count, __m256* totals) {
  const uint8_t* block = task.weights + (size_t)first * Format::kBlockBytes;
  const int8_t* values = task.x.values + (size_t)first * kRows * kQuantBlock;
  const float* scales = task.x.scales + (size_t)first * kRows;
  const float* sums = task.x.sums + (size_t)first * kRows;
  __m256 total[kRows];
#pragma GCC unroll 8
  for (uint32_t r = 0; r < kRows; ++r) total[r] = totals[r];

  for (uint32_t b = 0; b < count; ++b) {
    prefetch_share<Format>(block, half);
    __m256i integer[kRows];
    Format::template dot<kRows>(block, half, values, integer);
    const __m256 w_scale = Format::scale(block, half);
    const __m256 w_offset = Format::offset(block, half);
#pragma GCC unroll 8
    for (uint32_t r = 0; r < kRows; ++r) {
      const __m256 scale = _mm256_mul_ps(w_scale, _mm256_broadcast_ss(scales + r));
      total[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(integer[r]), scale, total[r]);
      if (Format::kHasOffset) {
        total[r] = _mm256_fmadd_ps(w_offset, _mm256_broadcast_ss(sums + r), total[r]);
      }
    }
    block += Format::kBlockBytes;
    values += kRows * kQuantBlock;
    scales += kRows;
    sums += kRows;
  }
#pragma GCC unroll 8
  for (uint32_t r = 0; r < kRows; ++r) totals[r] = total[r];
}

template <class Format, uint32_t kRows>
void multiply_group(const GroupTask& task) {
  __m256 low[kRows];
  __m256 high[kRows];
  for (uint32_t r = 0; r < kRows; ++r) {
    low[r] = high[r] = _mm256_setzero_ps();
    if (!task.first) load_lanes(task.out + r * task.out_stride, task.lanes, &low[r], &high[r]);
  }
  for (uint32_t b = 0; b < task.blocks; b += kTurnBlocks) {
    const uint32_t left = task.blocks - b;
    const uint32_t count = left < kTurnBlocks ? left : kTurnBlocks;
    multiply_half<Format, kRows>(task, 0, b, count, low);
    multiply_half<Format, kRows>(task, 1, b, count, high);
  }
  for (uint32_t r = 0; r < kRows; ++r) {
    store_lanes(task.out + r * task.out_stride, task.lanes, low[r], high[r]);
  }
}

template <class Format>
void multiply_group_rows(uint32_t rows, const GroupTask& task) {
  switch (rows) {
    case 1:
      return multiply_group<Format, 1>(task);
    case 2:
      return multiply_group<Format, 2>(task);
    case 3:
      return multiply_group<Format, 3>(task);
    case 4:
      return multiply_group<Format, 4>(task);
    case 5:
      return multiply_group<Format, 5>(task);
    default:
      return multiply_group<Format, 6>(task);
  }
}

// Activation rows [m, m + rows) times weight rows [begin, end), over the columns of one panel.
template <class Format>
void multiply_panel(const GemmArgs& args, const Panel& x, uint32_t m, uint32_t rows,
                    uint32_t first_block, uint32_t blocks, uint32_t begin, uint32_t end) {
  for (uint32_t n = begin; n < end; n += kRowGroup) {
    const uint8_t* group = group_at(args.format, args.packed, args.x.columns, n);
    GroupTask task;
    task.weights = group + (size_t)first_block * Format::kBlockBytes;
    task.blocks = blocks;
    task.x = x;
    task.out = args.out + m * args.out_stride + n;
    task.out_stride = args.out_stride;
    task.lanes = end - n < kRowGroup ? end - n : (uint32_t)kRowGroup;
    task.first = first_block == 0 && !args.accumulate;
    multiply_group_rows<Format>(rows, task);
  }
}

template <class Format>
void multiply_stretch(const GemmArgs& args, uint32_t begin, uint32_t end) {
  const uint32_t blocks = args.x.columns / kQuantBlock;
  const uint32_t tiles = (args.x.rows + kTileRowsMax - 1) / kTileRowsMax;
  PanelBuffer buffer;
  uint32_t m = 0;
  for (uint32_t tile = 0; tile < tiles; ++tile) {
    // Even tiles: 7 rows are 4 + 3, which is faster than 6 + 1.
    const uint32_t rows = (args.x.rows - m + tiles - tile - 1) / (tiles - tile);
    for (uint32_t b = 0; b < blocks; b += kPanelBlocks) {
      const uint32_t count = blocks - b < kPanelBlocks ? blocks - b : (uint32_t)kPanelBlocks;
      const Panel x = fill_panel(&buffer, args.x, m, rows, b, count);
      multiply_panel<Format>(args, x, m, rows, b, count, begin, end);
    }
    m += rows;
  }
}

template <class Format>
void multiply(const GemmArgs& args) {
  if (args.x.rows == 1) {
    const Panel x = {args.x.values, args.x.scales, args.x.sums};
    multiply_panel<Format>(args, x, 0, 1, 0, args.x.columns / kQuantBlock, args.row_begin,
                           args.row_end);
    return;
  }
  const size_t groups = kStretchBytes / group_bytes(args.format, args.x.columns);
  const uint32_t step = kRowGroup * (groups == 0 ? 1 : (uint32_t)groups);
  for (uint32_t n = args.row_begin; n < args.row_end; n += step) {
    multiply_stretch<Format>(args, n, args.row_end - n < step ? args.row_end : n + step);
  }
}

}  // namespace

void gemm_quantised(const GemmArgs& args) {
  switch (args.format) {
    case WeightFormat::kQ4_0:
      return multiply<Q4_0>(args);
    case WeightFormat::kQ4_1:
      return multiply<Q4_1>(args);
    case WeightFormat::kQ8_0:
      return multiply<Q8_0>(args);
    default:
      __builtin_trap();  // gemm() sends the other formats elsewhere
  }
}

}  // namespace pacer::kernels::avx2
