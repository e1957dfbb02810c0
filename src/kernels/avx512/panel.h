// A tile of activation rows, laid out as the quantised gemm reads it: block by block, the rows of a
// block side by side, so that every operand of the inner loop is one pointer plus a constant.
//
// Filling is cheap, as a panel is used for many weight groups. Rows that pad a tile are zeros.
// Lives on the stack. In an unnamed namespace, as the header is compiled for two instruction sets.
#pragma once

#include <immintrin.h>

#include "kernels/avx512/simd.h"

namespace pacer::kernels::avx512 {

namespace {

enum : uint32_t {
  kTileRowsMax = 16,  // activation rows whose totals stay in registers
  // Rows * blocks: 32 KiB of values, most of L1. 2048 columns of 16 rows, 32768 of one.
  kPanelRowBlocks = 1024,
};

// Blocks that a panel of tile_rows rows covers at a time: whole super-blocks.
PACER_INLINE uint32_t panel_blocks(uint32_t tile_rows) {
  return kPanelRowBlocks / tile_rows / 8 * 8;
}

// [block][row][32] values, [block][row] scales, [block][row][halves] sums and starts.
struct Panel {
  const int8_t* values;
  const float* scales;
  const float* sums;  // null for formats without a minimum
  const int32_t*
      starts;  // where the integer sums start: -bias * (sum of values); null without bias
};

struct PanelBuffer {
  alignas(64) int8_t values[kPanelRowBlocks * kQuantBlock];
  alignas(64) float scales[kPanelRowBlocks];
  alignas(64) float sums[kPanelRowBlocks * 2];
  alignas(64) int32_t starts[kPanelRowBlocks * 2];
};

// What a format asks of a panel.
struct PanelShape {
  uint32_t halves;   // sums and starts of a block: 1, or 2
  bool has_minimum;  // needs sums
  int32_t bias;      // needs starts unless 0
};

// -bias * (sum of a block's 32 values), or of its halves.
PACER_INLINE void fill_starts(__m256i values, const PanelShape& shape, int32_t* starts) {
  // Bytes plus 128 are unsigned; their sums by eights, then by sixteens.
  const __m256i raised = _mm256_xor_si256(values, _mm256_set1_epi8(-128));
  const __m256i eights = _mm256_sad_epu8(raised, _mm256_setzero_si256());
  const __m256i sixteens = _mm256_add_epi32(eights, _mm256_unpackhi_epi64(eights, eights));
  const int32_t low = _mm_cvtsi128_si32(_mm256_castsi256_si128(sixteens)) - 16 * 128;
  const int32_t high = _mm_cvtsi128_si32(_mm256_extracti128_si256(sixteens, 1)) - 16 * 128;
  if (shape.halves == 1) {
    starts[0] = -shape.bias * (low + high);
  } else {
    starts[0] = -shape.bias * low;
    starts[1] = -shape.bias * high;
  }
}

// Rows [m, m + rows) of x, blocks [first_block, first_block + blocks), padded to tile_rows.
static inline Panel fill_panel(PanelBuffer* buffer, const PanelShape& shape, const Activations& x,
                               uint32_t m, uint32_t rows, uint32_t tile_rows, uint32_t first_block,
                               uint32_t blocks) {
  const size_t row_blocks = x.columns / kQuantBlock;
  const float* sums = shape.halves == 1 ? x.sums : x.half_sums;
  for (uint32_t r = 0; r < tile_rows; ++r) {
    const bool exists = r < rows;
    const size_t from = (m + (exists ? r : 0)) * row_blocks + first_block;
    for (uint32_t b = 0; b < blocks; ++b) {
      const size_t to = (size_t)b * tile_rows + r;
      __m256i values = _mm256_setzero_si256();
      if (exists) {
        values = _mm256_loadu_si256((const __m256i*)(x.values + (from + b) * kQuantBlock));
      }
      _mm256_store_si256((__m256i*)(buffer->values + to * kQuantBlock), values);
      buffer->scales[to] = exists ? x.scales[from + b] : 0.0f;
      for (uint32_t h = 0; shape.has_minimum && h < shape.halves; ++h) {
        const float sum = sums[(from + b) * shape.halves + h];
        buffer->sums[to * shape.halves + h] = exists ? sum : 0.0f;
      }
      if (shape.bias != 0) fill_starts(values, shape, buffer->starts + to * shape.halves);
    }
  }
  return Panel{buffer->values, buffer->scales, buffer->sums, buffer->starts};
}

// One row needs no panel: its values and scales are in order as they are. Only starts are new.
static inline Panel row_panel(PanelBuffer* buffer, const PanelShape& shape, const Activations& x,
                              uint32_t first_block, uint32_t blocks) {
  const int8_t* values = x.values + (size_t)first_block * kQuantBlock;
  for (uint32_t b = 0; shape.bias != 0 && b < blocks; ++b) {
    const __m256i block = _mm256_loadu_si256((const __m256i*)(values + b * kQuantBlock));
    fill_starts(block, shape, buffer->starts + b * shape.halves);
  }
  const float* sums = shape.halves == 1 ? x.sums : x.half_sums;
  return Panel{values, x.scales + first_block, sums + (size_t)first_block * shape.halves,
               buffer->starts};
}

}  // namespace

}  // namespace pacer::kernels::avx512
