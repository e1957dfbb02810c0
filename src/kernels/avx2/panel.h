// A tile of activation rows, laid out as the quantised gemm reads it: block by block, the rows of a
// block side by side.
//
// With the rows' strides known at compile time, every operand of the inner loop is one pointer plus
// a constant; with strides in registers, address arithmetic takes some of the ports that multiply
// (measured: 3 % slower at 6 rows). Filling is cheap, as a panel is used for many weight groups.
// Lives on the stack.
#pragma once

#include <immintrin.h>

#include "kernels/args.h"

namespace pacer::kernels::avx2 {

enum : uint32_t {
  kTileRowsMax = 6,    // activation rows whose totals stay in registers
  kPanelBlocks = 128,  // 4096 columns: 24 KiB of values, half of L1
};

// [block][row][32] values, [block][row] scales. `sums` is what the format wants: nothing,
// [block][row] sums, or [block][row][2] half sums. One row is the same as no panel at all.
struct Panel {
  const int8_t* values;
  const float* scales;
  const float* sums;
};

struct PanelBuffer {
  alignas(64) int8_t values[kPanelBlocks * kTileRowsMax * kQuantBlock];
  alignas(64) float scales[kPanelBlocks * kTileRowsMax];
  alignas(64) float sums[kPanelBlocks * kTileRowsMax * 2];
};

// The sums that go with kOffsets offsets a block.
template <uint32_t kOffsets>
static inline const float* sums_of(const Activations& x) {
  return kOffsets == 2 ? x.half_sums : x.sums;
}

// Rows [m, m + rows) of x, blocks [first_block, first_block + blocks).
template <uint32_t kOffsets>
static inline Panel fill_panel(PanelBuffer* buffer, const Activations& x, uint32_t m, uint32_t rows,
                               uint32_t first_block, uint32_t blocks) {
  const size_t row_blocks = x.columns / kQuantBlock;
  for (uint32_t r = 0; r < rows; ++r) {
    const size_t from = (m + r) * row_blocks + first_block;
    for (uint32_t b = 0; b < blocks; ++b) {
      const size_t to = (size_t)b * rows + r;
      const __m256i* values = (const __m256i*)(x.values + (from + b) * kQuantBlock);
      _mm256_store_si256((__m256i*)(buffer->values + to * kQuantBlock), _mm256_loadu_si256(values));
      buffer->scales[to] = x.scales[from + b];
      for (uint32_t h = 0; h < kOffsets; ++h) {
        buffer->sums[to * kOffsets + h] = sums_of<kOffsets>(x)[(from + b) * kOffsets + h];
      }
    }
  }
  return Panel{buffer->values, buffer->scales, buffer->sums};
}

}  // namespace pacer::kernels::avx2
