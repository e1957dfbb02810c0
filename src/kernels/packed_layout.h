// The packed weight layout of the wide tiers: what pack writes, and what the gemm of kernels/avx2
// and kernels/avx512 reads. With args.h and peak_loops.h the only outside header that they include:
// no std templates here either, and no function that the linker could share between folders.
//
// Rows go in groups of 16 and a SIMD lane is a row, so no kernel sums horizontally and the scales
// of a block are plain vector loads. A group is one sequential stream: its spans of columns one
// after another. A line is 64 bytes, bytes 4n..4n+3 of it belong to row n: one 512-bit vector, or
// two 256-bit ones (rows 0-7, rows 8-15).
//
// Codes of a block of 32 columns (i is the byte of a row within a line, 0..3):
//
//   4 bits   4 lines. Line j: low nibbles are columns 8j + i, high ones 8j + 4 + i
//   5 bits   those, then 1 line of fifth bits: bit 2j of byte i is column 8j + i, bit 2j + 1 is
//            column 8j + 4 + i
//   6 bits   those, then 2 lines of upper two bits. Line h, field f (bits 2f, 2f + 1) of byte i is
//            column 16h + 4f + i
//   8 bits   8 lines. Line j, byte i is column 4j + i, signed
//   2 bits   2 lines. Line h, field f of byte i is column 16h + 4f + i
//   3 bits   those, then 1 line of third bits: bit 4h + f of byte i is column 16h + 4f + i
//
// A span is 32 columns for formats with one scale (and minimum) for every 32 as f16, 256 for those
// with a super-block. Vectors below have one element for each of the 16 rows. What a weight is
// comes from the format: `offset` stands for what is added to scale * code.
//
//   format  span                                              weight
//   Q4_0    codes 4 | f16 d                                   d * c - 8 d
//   Q4_1    codes 4 | f16 d | f16 m                           d * c + m
//   Q5_0    codes 5 | f16 d                                   d * c - 16 d
//   Q5_1    codes 5 | f16 d | f16 m                           d * c + m
//   Q8_0    codes 8 | f16 d                                   d * c
//   IQ4_NL  codes 4 | f16 d                                   d * kIQ4Values[c]
//   Q4_K    f16 d | f16 dmin | 8 x (codes 4 | u8 s | u8 m)    d s c - dmin m
//   Q5_K    f16 d | f16 dmin | 8 x (codes 5 | u8 s | u8 m)    d s c - dmin m
//   Q6_K    f16 d | 8 x (codes 6 | i8 s0 | i8 s1)             d s_h c - 32 d s_h
//   Q3_K    f16 d | 8 x (codes 3 | i8 s0 | i8 s1)             d s_h c - 4 d s_h
//   Q2_K    f16 d | f16 dmin | 8 x (codes 2 | u8 t0 | u8 t1)  d (t_h & 15) c - dmin (t_h >> 4)
//   IQ4_XS  f16 d | 8 x (codes 4 | i8 s | 16 bytes of zeros)  d s kIQ4Values[c]
//
// s0 and s1, t0 and t1 belong to columns 0-15 and 16-31 of the block (h = 0, 1). Scales of Q3_K and
// IQ4_XS are stored with their 32 taken off. Everything is a multiple of 32 bytes in a 64-byte
// aligned buffer, so no 256-bit load straddles a cache line.
//
//   F32 F16 BF16   column after column, 16 values each
//
// Size: that of GGUF, plus the last group's missing rows; 1.03 x for Q4_K, Q5_K, Q3_K, 1.07 x for
// IQ4_XS.
#pragma once

#include "kernels/args.h"

namespace pacer::kernels::packed {

enum : uint32_t {
  kLineBytes = 64,
  kVectorF16Bytes = kRowGroup * 2,  // one f16 for each row
  kVectorI8Bytes = kRowGroup,       // one byte for each row
  kCodes2Bytes = 2 * kLineBytes,
  kCodes3Bytes = 3 * kLineBytes,
  kCodes4Bytes = 4 * kLineBytes,
  kCodes5Bytes = 5 * kLineBytes,
  kCodes6Bytes = 6 * kLineBytes,
  kCodes8Bytes = 8 * kLineBytes,
};

// The values that the 4-bit codes of IQ4_NL and IQ4_XS stand for (GGUF specification).
constexpr int8_t kIQ4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                   1,    13,   25,  38,  53,  69,  89,  113};

// A span: a header for each super-block (0 bytes where there is none), then blocks of 32 columns.
// `tail` is what follows the codes within a block: scales, and minima or second scales.
struct SpanShape {
  uint32_t columns;       // 32 or 256
  uint32_t header_bytes;  // before the first block
  uint32_t codes_bytes;   // of one block
  uint32_t tail_bytes;    // of one block

  [[gnu::always_inline]] constexpr uint32_t block_bytes() const { return codes_bytes + tail_bytes; }
  [[gnu::always_inline]] constexpr uint32_t bytes() const {
    return header_bytes + columns / kQuantBlock * block_bytes();
  }
};

static constexpr SpanShape span_shape(WeightFormat format) {
  constexpr uint32_t f16 = kVectorF16Bytes;
  constexpr uint32_t two_i8 = 2 * kVectorI8Bytes;
  switch (format) {
    case WeightFormat::kQ4_0:
    case WeightFormat::kIQ4NL:
      return {kQuantBlock, 0, kCodes4Bytes, f16};
    case WeightFormat::kQ4_1:
      return {kQuantBlock, 0, kCodes4Bytes, 2 * f16};
    case WeightFormat::kQ5_0:
      return {kQuantBlock, 0, kCodes5Bytes, f16};
    case WeightFormat::kQ5_1:
      return {kQuantBlock, 0, kCodes5Bytes, 2 * f16};
    case WeightFormat::kQ8_0:
      return {kQuantBlock, 0, kCodes8Bytes, f16};
    case WeightFormat::kQ2K:
      return {kSuperBlock, 2 * f16, kCodes2Bytes, two_i8};
    case WeightFormat::kQ3K:
      return {kSuperBlock, f16, kCodes3Bytes, two_i8};
    case WeightFormat::kQ4K:
      return {kSuperBlock, 2 * f16, kCodes4Bytes, two_i8};
    case WeightFormat::kQ5K:
      return {kSuperBlock, 2 * f16, kCodes5Bytes, two_i8};
    case WeightFormat::kQ6K:
      return {kSuperBlock, f16, kCodes6Bytes, two_i8};
    case WeightFormat::kIQ4XS:
      return {kSuperBlock, f16, kCodes4Bytes, two_i8};
    case WeightFormat::kF32:
    case WeightFormat::kF16:
    case WeightFormat::kBF16:
      break;
  }
  return {1, 0, 0, 0};  // not quantised: no span
}

static constexpr bool is_quantised(WeightFormat format) {
  return format > WeightFormat::kBF16;
}

// Bytes of one value of the formats that are not quantised.
static constexpr size_t value_bytes(WeightFormat format) {
  return format == WeightFormat::kF32 ? 4 : 2;
}

// Bytes of 16 rows.
static constexpr size_t group_bytes(WeightFormat format, uint32_t columns) {
  if (!is_quantised(format)) return size_t{columns} * kRowGroup * value_bytes(format);
  const SpanShape shape = span_shape(format);
  return size_t{columns / shape.columns} * shape.bytes();
}

static inline const uint8_t* group_at(WeightFormat format, const void* matrix, uint32_t columns,
                                      uint32_t row) {
  return (const uint8_t*)matrix + row / kRowGroup * group_bytes(format, columns);
}

}  // namespace pacer::kernels::packed
