// How a quantised matrix is gone through: tiles of activation rows, panels of columns, groups of 16
// weight rows. Written once for the formats of block_dot.h and super_dot.h; gemm_quantised.cpp and
// gemm_super.cpp instantiate it.
//
// A tile is up to 6 activation rows x 8 weight rows: the f32 totals and the integer sums of a block
// stay in registers, and weights are widened once for all rows of the tile. Every (m, n) goes
// through the same instructions in the same order of blocks whatever the tile, so results do not
// depend on how many rows a call has.
//
//   1 row     streams the weights once, prefetching ahead
//   2-6 rows  the same stream, with the rows in a panel
//   more      tiles of 4-6 rows over a stretch of weights that stays in L2
#pragma once

#include <immintrin.h>

#include "kernels/avx2/block_dot.h"
#include "kernels/avx2/panel.h"

namespace pacer::kernels::avx2 {

// A group's two halves of 8 rows take turns every kTurnBlocks, so that both read a line while it is
// in L1. A super-block is one turn: the panels' kPanelBlocks are whole turns too.
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

PACER_INLINE void prefetch(const uint8_t* at) {
  _mm_prefetch((const char*)at + kPrefetchBytes, _MM_HINT_T0);
}

// Asks for the next lines of the stream; a half asks for its share of a block.
template <class Format>
PACER_INLINE void prefetch_share(const uint8_t* block, uint32_t half) {
  constexpr uint32_t kShare = Format::kBlockBytes / 2;
#pragma GCC unroll 5
  for (uint32_t i = 0; i < kShare; i += packed::kLineBytes) prefetch(block + half * kShare + i);
}

// total[r] += the block's offsets times the activations' sums.
template <class Format, uint32_t kRows>
PACER_INLINE void add_offsets(const typename Format::Header& header, const uint8_t* block,
                              uint32_t half, const float* sums, __m256* total) {
#pragma GCC unroll 2
  for (uint32_t h = 0; h < Format::kOffsets; ++h) {
    const __m256 w_offset = Format::offset(header, block, half, h);
#pragma GCC unroll 8
    for (uint32_t r = 0; r < kRows; ++r) {
      const __m256 sum = _mm256_broadcast_ss(sums + r * Format::kOffsets + h);
      total[r] = _mm256_fmadd_ps(w_offset, sum, total[r]);
    }
  }
}

// totals[r] += the blocks [first, first + count) of one half of the group, at most a turn.
template <class Format, uint32_t kRows>
PACER_INLINE void multiply_half(const GroupTask& task, uint32_t half, uint32_t first,
                                uint32_t count, __m256* totals) {
  static_assert(Format::kSpanBlocks == 1 || Format::kSpanBlocks == kTurnBlocks,
                "one header a turn");
  const uint8_t* span = task.weights + (size_t)(first / Format::kSpanBlocks) * Format::kSpanBytes;
  const uint8_t* block = span + Format::kHeaderBytes;
  const int8_t* values = task.x.values + (size_t)first * kRows * kQuantBlock;
  const float* scales = task.x.scales + (size_t)first * kRows;
  const float* sums = task.x.sums + (size_t)first * kRows * Format::kOffsets;
  if (Format::kHeaderBytes > 0) prefetch(span);
  const typename Format::Header header = Format::header(span, half);
  __m256 total[kRows];
#pragma GCC unroll 8
  for (uint32_t r = 0; r < kRows; ++r) total[r] = totals[r];

  for (uint32_t b = 0; b < count; ++b) {
    prefetch_share<Format>(block, half);
    __m256i integer[kRows];
    Format::template dot<kRows>(block, half, values, integer);
    const __m256 w_scale = Format::scale(header, block, half);
#pragma GCC unroll 8
    for (uint32_t r = 0; r < kRows; ++r) {
      const __m256 scale = _mm256_mul_ps(w_scale, _mm256_broadcast_ss(scales + r));
      total[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(integer[r]), scale, total[r]);
    }
    add_offsets<Format, kRows>(header, block, half, sums, total);
    block += Format::kBlockBytes;
    values += kRows * kQuantBlock;
    scales += kRows;
    sums += kRows * Format::kOffsets;
  }
#pragma GCC unroll 8
  for (uint32_t r = 0; r < kRows; ++r) totals[r] = total[r];
}

template <class Format, uint32_t kRows>
static void multiply_group(const GroupTask& task) {
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
static void multiply_group_rows(uint32_t rows, const GroupTask& task) {
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
static void multiply_panel(const GemmArgs& args, const Panel& x, uint32_t m, uint32_t rows,
                           uint32_t first_block, uint32_t blocks, uint32_t begin, uint32_t end) {
  for (uint32_t n = begin; n < end; n += kRowGroup) {
    const uint8_t* group = packed::group_at(args.format, args.packed, args.x.columns, n);
    GroupTask task;
    task.weights = group + (size_t)(first_block / Format::kSpanBlocks) * Format::kSpanBytes;
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
static void multiply_stretch(const GemmArgs& args, uint32_t begin, uint32_t end) {
  const uint32_t blocks = args.x.columns / kQuantBlock;
  const uint32_t tiles = (args.x.rows + kTileRowsMax - 1) / kTileRowsMax;
  PanelBuffer buffer;
  uint32_t m = 0;
  for (uint32_t tile = 0; tile < tiles; ++tile) {
    // Even tiles: 7 rows are 4 + 3, which is faster than 6 + 1.
    const uint32_t rows = (args.x.rows - m + tiles - tile - 1) / (tiles - tile);
    for (uint32_t b = 0; b < blocks; b += kPanelBlocks) {
      const uint32_t count = blocks - b < kPanelBlocks ? blocks - b : (uint32_t)kPanelBlocks;
      const Panel x = fill_panel<Format::kOffsets>(&buffer, args.x, m, rows, b, count);
      multiply_panel<Format>(args, x, m, rows, b, count, begin, end);
    }
    m += rows;
  }
}

template <class Format>
static void multiply(const GemmArgs& args) {
  if (args.x.rows == 1) {
    const Panel x = {args.x.values, args.x.scales, sums_of<Format::kOffsets>(args.x)};
    multiply_panel<Format>(args, x, 0, 1, 0, args.x.columns / kQuantBlock, args.row_begin,
                           args.row_end);
    return;
  }
  const size_t groups = kStretchBytes / packed::group_bytes(args.format, args.x.columns);
  const uint32_t step = kRowGroup * (groups == 0 ? 1 : (uint32_t)groups);
  for (uint32_t n = args.row_begin; n < args.row_end; n += step) {
    multiply_stretch<Format>(args, n, args.row_end - n < step ? args.row_end : n + step);
  }
}

}  // namespace pacer::kernels::avx2
