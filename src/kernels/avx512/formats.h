// The quantised formats as 16 weight rows at a time: codes of a block of 32 columns widened to
// bytes, scales and offsets as one f32 for each row. packed_layout.h draws what is read here.
//
// widen gives w[i], i = 0..7: bytes 4n..4n+3 of it are columns 4i..4i+3 of row n. What is added to
// a code in a format (-8 in Q4_0, -32 in Q6_K, ...) is kBias: the gemm starts its integer sums at
// -bias * (sum of the activations), so that it costs nothing and stays exact. Formats with a
// minimum of their own (kHasMinimum) add offset * sum in f32.
//
// `Dot` is the product of bytes (gemm_quantised.h); signed codes come out with Dot::kSignedBias
// added. A product of f16 and 8-bit scales has at most 19 bits, so scales are exact.
//
// In an unnamed namespace, as the header is compiled for two instruction sets.
#pragma once

#include <immintrin.h>

#include "kernels/avx512/simd.h"
#include "kernels/packed_layout.h"

namespace pacer::kernels::avx512 {

namespace {

constexpr uint32_t kVectors = 8;  // w[8] hold 32 columns of 16 rows

// --- Codes ---

PACER_INLINE __m512i load_line(const uint8_t* codes, uint32_t line) {
  return _mm512_loadu_si512(codes + line * packed::kLineBytes);
}

// Every byte moved up by `up` bits, or down; neighbours leak into bits that the caller masks away.
template <int kUp>
PACER_INLINE __m512i move_bits(__m512i v) {
  if (kUp == 0) return v;
  return kUp > 0 ? _mm512_slli_epi16(v, kUp > 0 ? kUp : 0)
                 : _mm512_srli_epi16(v, kUp < 0 ? -kUp : 0);
}

// low | (high & mask), in one instruction.
PACER_INLINE __m512i add_bits(__m512i low, __m512i high, __m512i mask) {
  return _mm512_ternarylogic_epi32(low, high, mask, 0xf8);
}

PACER_INLINE void widen_nibbles(const uint8_t* codes, __m512i* w) {
  const __m512i low_nibble = _mm512_set1_epi8(15);
#pragma GCC unroll 4
  for (uint32_t j = 0; j < 4; ++j) {
    const __m512i line = load_line(codes, j);
    w[2 * j] = _mm512_and_si512(line, low_nibble);
    w[2 * j + 1] = _mm512_and_si512(_mm512_srli_epi16(line, 4), low_nibble);
  }
}

PACER_INLINE void widen_fields(const uint8_t* codes, __m512i* w) {
  const __m512i field = _mm512_set1_epi8(3);
#pragma GCC unroll 2
  for (uint32_t h = 0; h < 2; ++h) {
    const __m512i line = load_line(codes, h);
    w[4 * h] = _mm512_and_si512(line, field);
    w[4 * h + 1] = _mm512_and_si512(move_bits<-2>(line), field);
    w[4 * h + 2] = _mm512_and_si512(move_bits<-4>(line), field);
    w[4 * h + 3] = _mm512_and_si512(move_bits<-6>(line), field);
  }
}

// Bit i of each byte of a line is bit `kTo` of w[i].
template <int kTo>
PACER_INLINE void add_bit_line(__m512i bits, __m512i* w) {
  const __m512i mask = _mm512_set1_epi8(1 << kTo);
  w[0] = add_bits(w[0], move_bits<kTo>(bits), mask);
  w[1] = add_bits(w[1], move_bits<kTo - 1>(bits), mask);
  w[2] = add_bits(w[2], move_bits<kTo - 2>(bits), mask);
  w[3] = add_bits(w[3], move_bits<kTo - 3>(bits), mask);
  w[4] = add_bits(w[4], move_bits<kTo - 4>(bits), mask);
  w[5] = add_bits(w[5], move_bits<kTo - 5>(bits), mask);
  w[6] = add_bits(w[6], move_bits<kTo - 6>(bits), mask);
  w[7] = add_bits(w[7], move_bits<kTo - 7>(bits), mask);
}

struct Codes2 {
  enum : uint32_t { kBytes = packed::kCodes2Bytes, kMax = 3, kSigned = 0 };
  template <class Dot>
  PACER_INLINE void widen(const uint8_t* codes, __m512i* w) {
    widen_fields(codes, w);
  }
};

struct Codes3 {
  enum : uint32_t { kBytes = packed::kCodes3Bytes, kMax = 7, kSigned = 0 };
  template <class Dot>
  PACER_INLINE void widen(const uint8_t* codes, __m512i* w) {
    widen_fields(codes, w);
    add_bit_line<2>(load_line(codes, 2), w);
  }
};

struct Codes4 {
  enum : uint32_t { kBytes = packed::kCodes4Bytes, kMax = 15, kSigned = 0 };
  template <class Dot>
  PACER_INLINE void widen(const uint8_t* codes, __m512i* w) {
    widen_nibbles(codes, w);
  }
};

struct Codes5 {
  enum : uint32_t { kBytes = packed::kCodes5Bytes, kMax = 31, kSigned = 0 };
  template <class Dot>
  PACER_INLINE void widen(const uint8_t* codes, __m512i* w) {
    widen_nibbles(codes, w);
    add_bit_line<4>(load_line(codes, 4), w);
  }
};

struct Codes6 {
  enum : uint32_t { kBytes = packed::kCodes6Bytes, kMax = 63, kSigned = 0 };
  template <class Dot>
  PACER_INLINE void widen(const uint8_t* codes, __m512i* w) {
    widen_nibbles(codes, w);
    const __m512i mask = _mm512_set1_epi8(0x30);
#pragma GCC unroll 2
    for (uint32_t h = 0; h < 2; ++h) {
      const __m512i upper = load_line(codes, 4 + h);
      w[4 * h] = add_bits(w[4 * h], move_bits<4>(upper), mask);
      w[4 * h + 1] = add_bits(w[4 * h + 1], move_bits<2>(upper), mask);
      w[4 * h + 2] = add_bits(w[4 * h + 2], upper, mask);
      w[4 * h + 3] = add_bits(w[4 * h + 3], move_bits<-2>(upper), mask);
    }
  }
};

struct Codes8 {
  enum : uint32_t { kBytes = packed::kCodes8Bytes, kMax = 255, kSigned = 1 };
  template <class Dot>
  PACER_INLINE void widen(const uint8_t* codes, __m512i* w) {
#pragma GCC unroll 8
    for (uint32_t j = 0; j < kVectors; ++j) {
      w[j] = load_line(codes, j);
      // Adding 128 is flipping the top bit.
      if (Dot::kSignedBias != 0) w[j] = _mm512_xor_si512(w[j], _mm512_set1_epi8(-128));
    }
  }
};

// 4-bit codes that stand for the 16 signed values of kIQ4Values.
struct CodesIQ4 {
  enum : uint32_t { kBytes = packed::kCodes4Bytes, kMax = 255, kSigned = 1 };
  template <class Dot>
  PACER_INLINE void widen(const uint8_t* codes, __m512i* w) {
    __m512i table = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i*)packed::kIQ4Values));
    if (Dot::kSignedBias != 0) table = _mm512_xor_si512(table, _mm512_set1_epi8(-128));
    widen_nibbles(codes, w);
#pragma GCC unroll 8
    for (uint32_t i = 0; i < kVectors; ++i) w[i] = _mm512_shuffle_epi8(table, w[i]);
  }
};

// --- Scales and offsets ---

// One f32 for each of 16 rows, from bytes.
PACER_INLINE __m512 load_u8(const uint8_t* at) {
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)at)));
}
PACER_INLINE __m512 load_i8(const uint8_t* at) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)at)));
}

// Of a super-block: factors of its blocks' scales and minima.
struct Header {
  __m512 scale;
  __m512 minus_minimum;
};

// Of a block: one scale and offset, or one for each half of 16 columns.
struct Scales {
  __m512 scale[2];
  __m512 offset[2];
};

// f16 d.
struct ScaleF16 {
  enum : uint32_t { kHalves = 1, kHasMinimum = 0, kTail = packed::kVectorF16Bytes };
  enum : uint32_t { kHeader = 0, kBlocks = 1 };
  PACER_INLINE void load(const Header&, const uint8_t* tail, Scales* s) {
    s->scale[0] = load_f16(tail);
  }
};

// f16 d | f16 m.
struct ScaleMinimumF16 {
  enum : uint32_t { kHalves = 1, kHasMinimum = 1, kTail = 2 * packed::kVectorF16Bytes };
  enum : uint32_t { kHeader = 0, kBlocks = 1 };
  PACER_INLINE void load(const Header&, const uint8_t* tail, Scales* s) {
    s->scale[0] = load_f16(tail);
    s->offset[0] = load_f16(tail + packed::kVectorF16Bytes);
  }
};

// Super-blocks of 8 blocks below: f16 d, and f16 dmin where there are minima.
enum : uint32_t { kSuperBlocks = kSuperBlock / kQuantBlock };

// u8 s | u8 m.
struct SuperScaleMinimum {
  enum : uint32_t { kHalves = 1, kHasMinimum = 1, kTail = 2 * packed::kVectorI8Bytes };
  enum : uint32_t { kHeader = 2 * packed::kVectorF16Bytes, kBlocks = kSuperBlocks };
  PACER_INLINE void load(const Header& header, const uint8_t* tail, Scales* s) {
    s->scale[0] = _mm512_mul_ps(header.scale, load_u8(tail));
    s->offset[0] = _mm512_mul_ps(header.minus_minimum, load_u8(tail + packed::kVectorI8Bytes));
  }
};

// i8 s | 16 bytes of zeros.
struct SuperScale {
  enum : uint32_t { kHalves = 1, kHasMinimum = 0, kTail = 2 * packed::kVectorI8Bytes };
  enum : uint32_t { kHeader = packed::kVectorF16Bytes, kBlocks = kSuperBlocks };
  PACER_INLINE void load(const Header& header, const uint8_t* tail, Scales* s) {
    s->scale[0] = _mm512_mul_ps(header.scale, load_i8(tail));
  }
};

// i8 s0 | i8 s1.
struct SuperHalfScales {
  enum : uint32_t { kHalves = 2, kHasMinimum = 0, kTail = 2 * packed::kVectorI8Bytes };
  enum : uint32_t { kHeader = packed::kVectorF16Bytes, kBlocks = kSuperBlocks };
  PACER_INLINE void load(const Header& header, const uint8_t* tail, Scales* s) {
    s->scale[0] = _mm512_mul_ps(header.scale, load_i8(tail));
    s->scale[1] = _mm512_mul_ps(header.scale, load_i8(tail + packed::kVectorI8Bytes));
  }
};

// u8 t0 | u8 t1: scales in the low nibbles, minima in the high ones.
struct SuperHalfScalesMinima {
  enum : uint32_t { kHalves = 2, kHasMinimum = 1, kTail = 2 * packed::kVectorI8Bytes };
  enum : uint32_t { kHeader = 2 * packed::kVectorF16Bytes, kBlocks = kSuperBlocks };
  PACER_INLINE void load(const Header& header, const uint8_t* tail, Scales* s) {
    const __m512i nibble = _mm512_set1_epi32(15);
#pragma GCC unroll 2
    for (uint32_t h = 0; h < 2; ++h) {
      const __m128i bytes = _mm_loadu_si128((const __m128i*)(tail + h * packed::kVectorI8Bytes));
      const __m512i t = _mm512_cvtepu8_epi32(bytes);
      const __m512 scale = _mm512_cvtepi32_ps(_mm512_and_si512(t, nibble));
      s->scale[h] = _mm512_mul_ps(header.scale, scale);
      const __m512 minimum = _mm512_cvtepi32_ps(_mm512_srli_epi32(t, 4));
      s->offset[h] = _mm512_mul_ps(header.minus_minimum, minimum);
    }
  }
};

template <class CodesOf, class ScaleOf, uint32_t kBiasOf>
struct Format {
  using Codes = CodesOf;
  using Scale = ScaleOf;
  enum : uint32_t {
    kHalves = Scale::kHalves,
    kHasMinimum = Scale::kHasMinimum,
    kBias = kBiasOf,
    kBlocks = Scale::kBlocks,  // of a span
    kHeaderBytes = Scale::kHeader,
    kBlockBytes = (uint32_t)Codes::kBytes + (uint32_t)Scale::kTail,
    kSpanBytes = kHeaderBytes + kBlocks * kBlockBytes,
  };

  PACER_INLINE Header header(const uint8_t* span) {
    Header header;
    header.scale = header.minus_minimum = _mm512_setzero_ps();
    if (kHeaderBytes != 0) header.scale = load_f16(span);
    if (kHeaderBytes != 0 && kHasMinimum) {
      const __m512 minimum = load_f16(span + packed::kVectorF16Bytes);
      header.minus_minimum = _mm512_xor_ps(minimum, _mm512_set1_ps(-0.0f));
    }
    return header;
  }
};

using Q4_0 = Format<Codes4, ScaleF16, 8>;
using Q4_1 = Format<Codes4, ScaleMinimumF16, 0>;
using Q5_0 = Format<Codes5, ScaleF16, 16>;
using Q5_1 = Format<Codes5, ScaleMinimumF16, 0>;
using Q8_0 = Format<Codes8, ScaleF16, 0>;
using Q2K = Format<Codes2, SuperHalfScalesMinima, 0>;
using Q3K = Format<Codes3, SuperHalfScales, 4>;
using Q4K = Format<Codes4, SuperScaleMinimum, 0>;
using Q5K = Format<Codes5, SuperScaleMinimum, 0>;
using Q6K = Format<Codes6, SuperHalfScales, 32>;
using IQ4NL = Format<CodesIQ4, ScaleF16, 0>;
using IQ4XS = Format<CodesIQ4, SuperScale, 0>;

}  // namespace

}  // namespace pacer::kernels::avx512
