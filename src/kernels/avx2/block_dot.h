// The integer part of a block: 8 weight rows x 32 columns times the int8 activations of kRows
// tokens, exactly.
//
// One struct for each quantised format; gemm_quantised.cpp is written against them. A lane of
// `integer` is a weight row.
//
// The empty asm statements change nothing: they keep the compiler from rewriting the chain of
// additions as a tree, which holds all products at once, spills them to the stack and runs at 2/3
// of the speed (gcc 12, measured).
#pragma once

#include <immintrin.h>

#include "kernels/avx2/layout.h"
#include "kernels/avx2/simd.h"

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

// Nibbles 0..15 times int8. A 16-bit lane takes 16 products of at most 15 * 127: 30480, no
// overflow.
template <uint32_t kRows>
PACER_INLINE void dot_nibbles(const uint8_t* block, uint32_t half, const int8_t* values,
                              __m256i* integer) {
  const __m256i low_nibble = _mm256_set1_epi8(15);
  __m256i pairs[kRows];  // [8 weight rows][2 partial sums]
#pragma GCC unroll 4
  for (uint32_t line = 0; line < kQ4Lines; ++line) {
    const __m256i* at = (const __m256i*)(block + line * kLineBytes + half * 32);
    const __m256i packed = _mm256_load_si256(at);
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
    integer[r] = _mm256_madd_epi16(pairs[r], _mm256_set1_epi16(1));
  }
}

// Weight = scale * (nibble - 8).
struct Q4_0 {
  enum : uint32_t { kBlockBytes = kQ4_0BlockBytes, kHasOffset = 1 };
  template <uint32_t kRows>
  PACER_INLINE void dot(const uint8_t* block, uint32_t half, const int8_t* x, __m256i* integer) {
    dot_nibbles<kRows>(block, half, x, integer);
  }
  PACER_INLINE __m256 scale(const uint8_t* block, uint32_t half) {
    return half_of_scales(block, kQ4ScaleOffset, half);
  }
  PACER_INLINE __m256 offset(const uint8_t* block, uint32_t half) {
    return _mm256_mul_ps(scale(block, half), _mm256_set1_ps(-8.0f));
  }
};

// Weight = scale * nibble + min.
struct Q4_1 {
  enum : uint32_t { kBlockBytes = kQ4_1BlockBytes, kHasOffset = 1 };
  template <uint32_t kRows>
  PACER_INLINE void dot(const uint8_t* block, uint32_t half, const int8_t* x, __m256i* integer) {
    dot_nibbles<kRows>(block, half, x, integer);
  }
  PACER_INLINE __m256 scale(const uint8_t* block, uint32_t half) {
    return half_of_scales(block, kQ4ScaleOffset, half);
  }
  PACER_INLINE __m256 offset(const uint8_t* block, uint32_t half) {
    return half_of_scales(block, kQ4MinOffset, half);
  }
};

// Weight = scale * int8. maddubs wants one unsigned operand: |w| * (x with the sign of w). A pair
// is at most 2 * 128 * 127 = 32512, no saturation, but pairs cannot be added in 16 bits.
struct Q8_0 {
  enum : uint32_t { kBlockBytes = kQ8_0BlockBytes, kHasOffset = 0 };
  template <uint32_t kRows>
  PACER_INLINE void dot(const uint8_t* block, uint32_t half, const int8_t* x, __m256i* integer) {
    const __m256i ones = _mm256_set1_epi16(1);
#pragma GCC unroll 8
    for (uint32_t line = 0; line < kQ8Lines; ++line) {
      const __m256i* at = (const __m256i*)(block + line * kLineBytes + half * 32);
      const __m256i w = _mm256_load_si256(at);
      const __m256i w_abs = _mm256_abs_epi8(w);  // -128 becomes 128, as unsigned
#pragma GCC unroll 8
      for (uint32_t r = 0; r < kRows; ++r) {
        const __m256i x_signed = _mm256_sign_epi8(broadcast_4(x + r * kQuantBlock + 4 * line), w);
        const __m256i four = _mm256_madd_epi16(_mm256_maddubs_epi16(w_abs, x_signed), ones);
        integer[r] = line == 0 ? four : _mm256_add_epi32(integer[r], four);
        asm("" : "+x"(integer[r]));
      }
    }
  }
  PACER_INLINE __m256 scale(const uint8_t* block, uint32_t half) {
    return half_of_scales(block, kQ8ScaleOffset, half);
  }
  PACER_INLINE __m256 offset(const uint8_t*, uint32_t) {
    return _mm256_setzero_ps();
  }
};

}  // namespace pacer::kernels::avx2
