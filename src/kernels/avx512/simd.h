// Small vector pieces that the AVX-512 kernels share: masks for tails, wide loads, the exponential,
// tanh.
//
// Everything here is static inline: code compiled for AVX-512 must not be shared with other folders
// by the linker.
#pragma once

#include <immintrin.h>

#include "kernels/args.h"

namespace pacer::kernels::avx512 {

#define PACER_INLINE static inline __attribute__((always_inline))

// The lanes [0, count), for masked loads and stores of a tail. count <= 16.
PACER_INLINE __mmask16 first_lanes(uint32_t count) {
  return (__mmask16)((1u << count) - 1);
}

PACER_INLINE __m512 load_f16(const void* at) {
  return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)at));
}

// exp(r) * 2^n for |r| <= ln(2) / 2 and whole n in [-126, 127]: the polynomial of avx2/simd.h, so
// that both tiers give the same bits. exp(0) is exactly 1; relative error 3e-9 before rounding.
PACER_INLINE __m512 exp_scaled(__m512 r, __m512 n) {
  __m512 p = _mm512_set1_ps(0.0013814468f);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.0083687808f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.0416683927f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.1666651964f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.4999999404f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
  return _mm512_scalef_ps(p, n);
}

PACER_INLINE __m512 round_to_whole(__m512 x) {
  return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

// exp(x): 0 below -87.3 (where the result would be denormal), and held at its value for 88 above.
PACER_INLINE __m512 exp_f32(__m512 x) {
  const __m512 lowest = _mm512_set1_ps(-87.3f);
  const __mmask16 not_too_low = _mm512_cmp_ps_mask(x, lowest, _CMP_NLT_UQ);
  x = _mm512_min_ps(_mm512_set1_ps(88.0f), _mm512_max_ps(lowest, x));
  const __m512 n = round_to_whole(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)));
  // r = x - n ln 2, with ln 2 in two parts: the first has 9 zero bits at its end, so n * it is
  // exact.
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693145752f), x);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(1.42860677e-6f), r);
  return _mm512_maskz_mov_ps(not_too_low, exp_scaled(r, n));
}

// 2^x for x <= 0: 0 below -126.
PACER_INLINE __m512 exp2_f32(__m512 x) {
  const __m512 lowest = _mm512_set1_ps(-126.0f);
  const __mmask16 not_too_low = _mm512_cmp_ps_mask(x, lowest, _CMP_NLT_UQ);
  x = _mm512_max_ps(lowest, x);
  const __m512 n = round_to_whole(x);
  const __m512 r = _mm512_mul_ps(_mm512_sub_ps(x, n), _mm512_set1_ps(0.69314718f));
  return _mm512_maskz_mov_ps(not_too_low, exp_scaled(r, n));
}

// tanh(x), as avx2/simd.h: near 0 an odd polynomial (a least-maximum fit up to 0.625, relative
// error 5e-9), beyond it 1 - 2 / (exp(2|x|) + 1), with the sign of x.
PACER_INLINE __m512 tanh_f32(__m512 x) {
  const __m512 sign_bit = _mm512_set1_ps(-0.0f);
  const __m512 size = _mm512_andnot_ps(sign_bit, x);

  const __m512 square = _mm512_mul_ps(size, size);
  __m512 p = _mm512_set1_ps(-0.005704986863f);
  p = _mm512_fmadd_ps(p, square, _mm512_set1_ps(0.020639088f));
  p = _mm512_fmadd_ps(p, square, _mm512_set1_ps(-0.05373971537f));
  p = _mm512_fmadd_ps(p, square, _mm512_set1_ps(0.1333144158f));
  p = _mm512_fmadd_ps(p, square, _mm512_set1_ps(-0.3333328068f));
  const __m512 near = _mm512_fmadd_ps(_mm512_mul_ps(size, square), p, size);

  const __m512 one = _mm512_set1_ps(1.0f);
  const __m512 denominator = _mm512_add_ps(exp_f32(_mm512_add_ps(size, size)), one);
  const __m512 far = _mm512_sub_ps(one, _mm512_div_ps(_mm512_set1_ps(2.0f), denominator));

  const __mmask16 is_near = _mm512_cmp_ps_mask(size, _mm512_set1_ps(0.625f), _CMP_LT_OQ);
  const __m512 result = _mm512_mask_mov_ps(far, is_near, near);
  return _mm512_or_ps(result, _mm512_and_ps(sign_bit, x));
}

// Rows that a gemm pads a tile of `rows` activation rows to, 1..16: 1, 2, 4, 6, 8, 12, 16.
PACER_INLINE uint32_t padded_rows(uint32_t rows) {
  if (rows <= 2) return rows;
  return rows <= 8 ? (rows + 1) / 2 * 2 : (rows + 3) / 4 * 4;
}

}  // namespace pacer::kernels::avx512
