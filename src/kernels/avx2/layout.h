// The packed weight layout of the AVX2 tier.
//
// Rows go in groups of 16 and a SIMD lane is a row, so no kernel sums horizontally and the scales
// of a block are plain vector loads. A group is one sequential stream: its blocks of 32 columns one
// after another.
//
//   Q4_0, Q4_1   4 lines of 64 bytes, then 16 f16 scales, then for Q4_1 16 f16 minima: 288 or
//                320 bytes. Line j, bytes 4n..4n+3 belong to row n: their low nibbles are columns
//                8j..8j+3, their high ones 8j+4..8j+7
//   Q8_0         8 lines of 64 bytes, then 16 f16 scales: 544 bytes. Line j, bytes 4n..4n+3 are
//                columns 4j..4j+3 of row n
//   F32 F16 BF16 column after column, 16 values each
//
// A line is two 32-byte vectors, rows 0-7 and rows 8-15. Blocks are multiples of 32 bytes in a
// 64-byte aligned buffer, so no vector load straddles a cache line. Size: that of GGUF, plus the
// last group's missing rows.
#pragma once

#include "kernels/args.h"

namespace pacer::kernels::avx2 {

enum : uint32_t {
  kLineBytes = 64,
  kQ4Lines = 4,
  kQ8Lines = 8,
  kQ4ScaleOffset = kQ4Lines * kLineBytes,
  kQ4MinOffset = kQ4ScaleOffset + kRowGroup * 2,
  kQ8ScaleOffset = kQ8Lines * kLineBytes,
  kQ4_0BlockBytes = kQ4MinOffset,
  kQ4_1BlockBytes = kQ4MinOffset + kRowGroup * 2,
  kQ8_0BlockBytes = kQ8ScaleOffset + kRowGroup * 2,
};

static inline bool is_quantised(WeightFormat format) {
  return format == WeightFormat::kQ4_0 || format == WeightFormat::kQ4_1 ||
         format == WeightFormat::kQ8_0;
}

// Bytes of 16 rows x 32 columns (quantised formats).
static inline size_t block_bytes(WeightFormat format) {
  if (format == WeightFormat::kQ8_0) return kQ8_0BlockBytes;
  return format == WeightFormat::kQ4_1 ? kQ4_1BlockBytes : kQ4_0BlockBytes;
}

// Bytes of one value (the other formats).
static inline size_t value_bytes(WeightFormat format) {
  return format == WeightFormat::kF32 ? 4 : 2;
}

// Bytes of 16 rows.
static inline size_t group_bytes(WeightFormat format, uint32_t columns) {
  if (is_quantised(format)) return columns / kQuantBlock * block_bytes(format);
  return columns * kRowGroup * value_bytes(format);
}

static inline const uint8_t* group_at(WeightFormat format, const void* packed, uint32_t columns,
                                      uint32_t row) {
  return (const uint8_t*)packed + row / kRowGroup * group_bytes(format, columns);
}

}  // namespace pacer::kernels::avx2
