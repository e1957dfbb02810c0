// The integer part of a block of 32 columns: 8 weight rows times the int8 activations of kRows
// tokens, exactly. Formats with f16 scales for every block; those with super-blocks: super_dot.h.
//
// One struct for each format; gemm_tile.h is written against them. A lane of `integer` is a weight
// row. `half` says which 8 rows of a group of 16.
//
//   kSpanBlocks   blocks of 32 columns that share a header: 1, or 8 of a super-block
//   kOffsets      offsets of a block: none, one (times the activations' sums), or one for each 16
//                 columns (times their half sums)
//   Header        what is loaded once for a span
//   dot           integer[r] = the block's integer, scales within a super-block included
//   scale, offset what its f32 value and the activations' sums are multiplied with
//
// The empty asm statements change nothing: they keep the compiler from rewriting the chain of
// additions as a tree, which holds all products at once, spills them to the stack and runs at 2/3
// of the speed (gcc 12, measured).
#pragma once

#include <immintrin.h>

#include "kernels/avx2/simd.h"
#include "kernels/packed_layout.h"

namespace pacer::kernels::avx2 {

#define PACER_INLINE static inline __attribute__((always_inline))

// Four consecutive activations in every lane.
PACER_INLINE __m256i broadcast_4(const int8_t* at) {
  int32_t four;
  __builtin_memcpy(&four, at, 4);
  return _mm256_set1_epi32(four);
}

PACER_INLINE __m256 half_of_scales(const uint8_t* block, uint32_t offset, uint32_t half) {
  return load_f16((const uint16_t*)(block + offset) + 8 * half);
}

PACER_INLINE __m256i load_line(const uint8_t* block, uint32_t line, uint32_t half) {
  return _mm256_load_si256((const __m256i*)(block + line * packed::kLineBytes + half * 32));
}

// Bit `from` of every byte (and those above it) moved to bit `to`. What crosses bytes is left to
// the caller's mask.
PACER_INLINE __m256i shift_bits(__m256i v, uint32_t from, uint32_t to) {
  if (to > from) return _mm256_slli_epi16(v, (int)(to - from));
  if (to < from) return _mm256_srli_epi16(v, (int)(from - to));
  return v;
}

// Nibbles 0..15 times int8, then each row's sums times its multiplier (the same 16-bit value twice
// in a lane). A 16-bit lane takes 16 products of at most 15 * 127: 30480, no overflow.
template <uint32_t kRows>
PACER_INLINE void dot_nibbles(const uint8_t* block, uint32_t half, const int8_t* values,
                              __m256i multiplier, __m256i* integer) {
  const __m256i low_nibble = _mm256_set1_epi8(15);
  __m256i pairs[kRows];  // [8 weight rows][2 partial sums]
#pragma GCC unroll 4
  for (uint32_t line = 0; line < 4; ++line) {
    const __m256i packed = load_line(block, line, half);
    const __m256i w_low = _mm256_and_si256(packed, low_nibble);
    const __m256i w_high = _mm256_and_si256(_mm256_srli_epi16(packed, 4), low_nibble);
#pragma GCC unroll 8
    for (uint32_t r = 0; r < kRows; ++r) {
      const int8_t* x = values + r * kQuantBlock + 8 * line;
      const __m256i low = _mm256_maddubs_epi16(w_low, broadcast_4(x));
      const __m256i high = _mm256_maddubs_epi16(w_high, broadcast_4(x + 4));
      pairs[r] = line == 0 ? low : _mm256_add_epi16(pairs[r], low);
      asm("" : "+x"(pairs[r]));
      pairs[r] = _mm256_add_epi16(pairs[r], high);
      asm("" : "+x"(pairs[r]));
    }
  }
#pragma GCC unroll 8
  for (uint32_t r = 0; r < kRows; ++r) {
    integer[r] = _mm256_madd_epi16(pairs[r], multiplier);
  }
}

// integer[r] (+)= multiplier * the products of kWords words (4 columns each, unsigned codes), from
// word `first` of the block on. The caller sees to it that 2 * kWords products fit 16 bits.
template <uint32_t kRows, uint32_t kWords>
PACER_INLINE void add_words(const __m256i* words, uint32_t first, const int8_t* values,
                            __m256i multiplier, __m256i* integer) {
#pragma GCC unroll 8
  for (uint32_t r = 0; r < kRows; ++r) {
    const int8_t* x = values + r * kQuantBlock + 4 * first;
    __m256i pairs = _mm256_maddubs_epi16(words[0], broadcast_4(x));
#pragma GCC unroll 4
    for (uint32_t k = 1; k < kWords; ++k) {
      pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(words[k], broadcast_4(x + 4 * k)));
      asm("" : "+x"(pairs));
    }
    const __m256i product = _mm256_madd_epi16(pairs, multiplier);
    integer[r] = first == 0 ? product : _mm256_add_epi32(integer[r], product);
    asm("" : "+x"(integer[r]));
  }
}

// 5-bit codes. A 16-bit lane takes the 8 products of 4 words, at most 31 * 127 each: 31496.
template <uint32_t kRows>
PACER_INLINE void dot_5_bits(const uint8_t* block, uint32_t half, const int8_t* values,
                             __m256i multiplier, __m256i* integer) {
  const __m256i low_nibble = _mm256_set1_epi8(15);
  const __m256i fifth_bit = _mm256_set1_epi8(16);
  const __m256i fifths = load_line(block, 4, half);  // bit k: word k
#pragma GCC unroll 2
  for (uint32_t first = 0; first < 8; first += 4) {
    __m256i words[4];
#pragma GCC unroll 2
    for (uint32_t i = 0; i < 2; ++i) {
      const uint32_t k = first + 2 * i;
      const __m256i packed = load_line(block, k / 2, half);
      const __m256i low = _mm256_and_si256(packed, low_nibble);
      const __m256i high = _mm256_and_si256(_mm256_srli_epi16(packed, 4), low_nibble);
      words[2 * i] = _mm256_or_si256(low, _mm256_and_si256(shift_bits(fifths, k, 4), fifth_bit));
      words[2 * i + 1] =
          _mm256_or_si256(high, _mm256_and_si256(shift_bits(fifths, k + 1, 4), fifth_bit));
    }
    add_words<kRows, 4>(words, first, values, multiplier, integer);
  }
}

// What IQ4 codes stand for, in both halves of a vector.
PACER_INLINE __m256i iq4_values() {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i*)packed::kIQ4Values));
}

// maddubs wants one unsigned operand: |w| * (x with the sign of w), for signed w.
template <uint32_t kRows>
PACER_INLINE void add_signed_word(__m256i w, __m256i w_abs, uint32_t k, const int8_t* values,
                                  __m256i multiplier, __m256i* integer) {
#pragma GCC unroll 8
  for (uint32_t r = 0; r < kRows; ++r) {
    const __m256i x_signed = _mm256_sign_epi8(broadcast_4(values + r * kQuantBlock + 4 * k), w);
    const __m256i four = _mm256_madd_epi16(_mm256_maddubs_epi16(w_abs, x_signed), multiplier);
    integer[r] = k == 0 ? four : _mm256_add_epi32(integer[r], four);
    asm("" : "+x"(integer[r]));
  }
}

// Nibbles that stand for values of a table. A pair is at most 2 * 127 * 127 = 32258: no
// saturation, but pairs cannot be added in 16 bits.
template <uint32_t kRows>
PACER_INLINE void dot_iq4(const uint8_t* block, uint32_t half, const int8_t* values,
                          __m256i multiplier, __m256i* integer) {
  const __m256i low_nibble = _mm256_set1_epi8(15);
  const __m256i table = iq4_values();
#pragma GCC unroll 4
  for (uint32_t line = 0; line < 4; ++line) {
    const __m256i packed = load_line(block, line, half);
    const __m256i low = _mm256_shuffle_epi8(table, _mm256_and_si256(packed, low_nibble));
    const __m256i high =
        _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(packed, 4), low_nibble));
    add_signed_word<kRows>(low, _mm256_abs_epi8(low), 2 * line, values, multiplier, integer);
    add_signed_word<kRows>(high, _mm256_abs_epi8(high), 2 * line + 1, values, multiplier, integer);
  }
}

struct NoHeader {};

// What the formats below have in common: a span is a block, with 16 f16 scales behind its codes.
template <WeightFormat kFormat>
struct F16Scaled {
  enum : uint32_t {
    kSpanBlocks = 1,
    kHeaderBytes = 0,
    kBlockBytes = packed::span_shape(kFormat).bytes(),
    kSpanBytes = kBlockBytes,
    kScaleOffset = packed::span_shape(kFormat).codes_bytes,
    kMinOffset = kScaleOffset + packed::kVectorF16Bytes,
  };
  using Header = NoHeader;
  PACER_INLINE Header header(const uint8_t*, uint32_t) { return {}; }
  PACER_INLINE __m256 scale(Header, const uint8_t* block, uint32_t half) {
    return half_of_scales(block, kScaleOffset, half);
  }
};

// Weight = scale * (nibble - 8).
struct Q4_0 : F16Scaled<WeightFormat::kQ4_0> {
  enum : uint32_t { kOffsets = 1 };
  template <uint32_t kRows>
  PACER_INLINE void dot(const uint8_t* block, uint32_t half, const int8_t* x, __m256i* integer) {
    dot_nibbles<kRows>(block, half, x, _mm256_set1_epi16(1), integer);
  }
  PACER_INLINE __m256 offset(Header, const uint8_t* block, uint32_t half, uint32_t) {
    return _mm256_mul_ps(scale({}, block, half), _mm256_set1_ps(-8.0f));
  }
};

// Weight = scale * nibble + min.
struct Q4_1 : F16Scaled<WeightFormat::kQ4_1> {
  enum : uint32_t { kOffsets = 1 };
  template <uint32_t kRows>
  PACER_INLINE void dot(const uint8_t* block, uint32_t half, const int8_t* x, __m256i* integer) {
    dot_nibbles<kRows>(block, half, x, _mm256_set1_epi16(1), integer);
  }
  PACER_INLINE __m256 offset(Header, const uint8_t* block, uint32_t half, uint32_t) {
    return half_of_scales(block, kMinOffset, half);
  }
};

// Weight = scale * (code - 16).
struct Q5_0 : F16Scaled<WeightFormat::kQ5_0> {
  enum : uint32_t { kOffsets = 1 };
  template <uint32_t kRows>
  PACER_INLINE void dot(const uint8_t* block, uint32_t half, const int8_t* x, __m256i* integer) {
    dot_5_bits<kRows>(block, half, x, _mm256_set1_epi16(1), integer);
  }
  PACER_INLINE __m256 offset(Header, const uint8_t* block, uint32_t half, uint32_t) {
    return _mm256_mul_ps(scale({}, block, half), _mm256_set1_ps(-16.0f));
  }
};

// Weight = scale * code + min.
struct Q5_1 : F16Scaled<WeightFormat::kQ5_1> {
  enum : uint32_t { kOffsets = 1 };
  template <uint32_t kRows>
  PACER_INLINE void dot(const uint8_t* block, uint32_t half, const int8_t* x, __m256i* integer) {
    dot_5_bits<kRows>(block, half, x, _mm256_set1_epi16(1), integer);
  }
  PACER_INLINE __m256 offset(Header, const uint8_t* block, uint32_t half, uint32_t) {
    return half_of_scales(block, kMinOffset, half);
  }
};

// Weight = scale * int8. A pair is at most 2 * 128 * 127 = 32512: as for IQ4.
struct Q8_0 : F16Scaled<WeightFormat::kQ8_0> {
  enum : uint32_t { kOffsets = 0 };
  template <uint32_t kRows>
  PACER_INLINE void dot(const uint8_t* block, uint32_t half, const int8_t* x, __m256i* integer) {
#pragma GCC unroll 8
    for (uint32_t line = 0; line < 8; ++line) {
      const __m256i w = load_line(block, line, half);
      const __m256i w_abs = _mm256_abs_epi8(w);  // -128 becomes 128, as unsigned
      add_signed_word<kRows>(w, w_abs, line, x, _mm256_set1_epi16(1), integer);
    }
  }
  PACER_INLINE __m256 offset(Header, const uint8_t*, uint32_t, uint32_t) {
    return _mm256_setzero_ps();
  }
};

// Weight = scale * value of the table.
struct IQ4_NL : F16Scaled<WeightFormat::kIQ4NL> {
  enum : uint32_t { kOffsets = 0 };
  template <uint32_t kRows>
  PACER_INLINE void dot(const uint8_t* block, uint32_t half, const int8_t* x, __m256i* integer) {
    dot_iq4<kRows>(block, half, x, _mm256_set1_epi16(1), integer);
  }
  PACER_INLINE __m256 offset(Header, const uint8_t*, uint32_t, uint32_t) {
    return _mm256_setzero_ps();
  }
};

}  // namespace pacer::kernels::avx2
