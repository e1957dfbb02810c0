// The quantised gemm without VNNI: products of bytes are multiply-adds of pairs into 16 bits, which
// are added up as far as 16 bits allow, then widened to 32. For CPUs with AVX-512 that lack
// vpdpbusd. gemm_quantised.h has everything else.
//
// Bound: memory at 1-2 rows, then vector instructions, some 20 for every 512 Q4 products, over 2
// ports. Measured on one core of a Sapphire Rapids guest, against AVX2 in the same run: Q4_1 1.3 x
// at 1 row from L2, 1.5 x from 4 rows on (0.32 TOP/s); Q8_0 1.0-1.5 x; IQ4_NL 0.93 x at 1 row from
// L2.
//
// The empty asm statements change nothing: they keep the compiler from rewriting the chain of
// additions as a tree, which holds all products at once and spills them (see avx2/block_dot.h).

#include "kernels/avx512/gemm_quantised.h"

#include "kernels/avx512/kernels.h"

namespace pacer::kernels::avx512 {

namespace {

struct MultiplyAddPairs {
  enum : uint32_t { kSignedBias = 0 };

  template <class Format, uint32_t kRows>
  PACER_INLINE void dot(const __m512i* w, const int8_t* x, __m512i* integer) {
    if constexpr (Format::Codes::kSigned) {
      dot_signed<Format, kRows>(w, x, integer);
    } else {
      dot_unsigned<Format, kRows>(w, x, integer);
    }
  }

  // A 16-bit lane takes two products at a time, each at most 127 * kMax.
  template <class Format, uint32_t kRows>
  PACER_INLINE void dot_unsigned(const __m512i* w, const int8_t* x, __m512i* integer) {
    constexpr uint32_t kFit = 32767 / (2 * 127 * Format::Codes::kMax);
    constexpr uint32_t kHalfVectors = kVectors / Format::kHalves;
    constexpr uint32_t kDepth = kFit >= kHalfVectors ? kHalfVectors : kFit >= 4 ? 4 : 2;
    static_assert(kFit >= 2, "codes too wide for 16 bits");
#pragma GCC unroll 8
    for (uint32_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (uint32_t first = 0; first < kVectors; first += kDepth) {
        const int8_t* at = x + r * kQuantBlock + 4 * first;
        __m512i pairs = _mm512_maddubs_epi16(w[first], broadcast_4(at));
#pragma GCC unroll 8
        for (uint32_t i = 1; i < kDepth; ++i) {
          const __m512i two = _mm512_maddubs_epi16(w[first + i], broadcast_4(at + 4 * i));
          pairs = _mm512_add_epi16(pairs, two);
          asm("" : "+v"(pairs));
        }
        __m512i* sum = integer + r * Format::kHalves + first / kHalfVectors;
        *sum = _mm512_add_epi32(*sum, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
        asm("" : "+v"(*sum));
      }
    }
  }

  // The instruction wants one unsigned operand: |w| * (x with the sign of w). A pair is at most
  // 2 * 128 * 127 = 32512, no saturation, but pairs cannot be added in 16 bits.
  template <class Format, uint32_t kRows>
  PACER_INLINE void dot_signed(const __m512i* w, const int8_t* x, __m512i* integer) {
    static_assert(Format::kHalves == 1, "no signed format has two scales in a block");
    const __m512i zero = _mm512_setzero_si512();
#pragma GCC unroll 8
    for (uint32_t i = 0; i < kVectors; ++i) {
      const __m512i w_abs = _mm512_abs_epi8(w[i]);  // -128 becomes 128, as unsigned
      const __mmask64 negative = _mm512_movepi8_mask(w[i]);
#pragma GCC unroll 8
      for (uint32_t r = 0; r < kRows; ++r) {
        const __m512i x_4 = broadcast_4(x + r * kQuantBlock + 4 * i);
        const __m512i x_signed = _mm512_mask_sub_epi8(x_4, negative, zero, x_4);
        const __m512i pairs = _mm512_maddubs_epi16(w_abs, x_signed);
        integer[r] = _mm512_add_epi32(integer[r], _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
        asm("" : "+v"(integer[r]));
      }
    }
  }
};

}  // namespace

void gemm(const GemmArgs& args) {
  if (packed::is_quantised(args.format)) {
    multiply_quantised<MultiplyAddPairs>(args);
  } else {
    gemm_float(args);
  }
}

}  // namespace pacer::kernels::avx512
