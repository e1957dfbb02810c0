// Small vector pieces that the AVX2 kernels share: horizontal sums, wide loads, exponential and
// tanh.
//
// Everything here is static inline: code compiled for AVX2 must not be shared with other folders by
// the linker.
#pragma once

#include <immintrin.h>

#include "kernels/args.h"

namespace pacer::kernels::avx2 {

static inline float sum_lanes(__m256 v) {
  __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  half = _mm_add_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}

static inline float max_lanes(__m256 v) {
  __m128 half = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  half = _mm_max_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
}

static inline __m256 load_f16(const uint16_t* at) {
  return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)at));
}

// All ones in lanes [0, count), for masked loads and stores of a tail. count <= 8.
static inline __m256i first_lanes(uint32_t count) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)count), lane);
}

// exp(r) * 2^n for |r| <= ln(2) / 2 and whole n in [-126, 127]. The polynomial is a least-maximum
// fit with the first two coefficients held at 1, so that exp(0) is exactly 1; its relative error is
// 3e-9, far below f32 rounding.
static inline __m256 exp_scaled(__m256 r, __m256 n) {
  __m256 p = _mm256_set1_ps(0.0013814468f);
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.0083687808f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.0416683927f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.1666651964f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.4999999404f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
  const __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23)));
}

static inline __m256 round_to_whole(__m256 x) {
  return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

// exp(x): 0 below -87.3 (where the result would be denormal), and held at its value for 88 above.
static inline __m256 exp_f32(__m256 x) {
  const __m256 lowest = _mm256_set1_ps(-87.3f);
  const __m256 too_low = _mm256_cmp_ps(x, lowest, _CMP_LT_OQ);
  x = _mm256_min_ps(_mm256_set1_ps(88.0f), _mm256_max_ps(lowest, x));
  const __m256 n = round_to_whole(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504f)));
  // r = x - n ln 2, with ln 2 in two parts: the first has 9 zero bits at its end, so n * it is
  // exact.
  __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693145752f), x);
  r = _mm256_fnmadd_ps(n, _mm256_set1_ps(1.42860677e-6f), r);
  return _mm256_andnot_ps(too_low, exp_scaled(r, n));
}

// 2^x for x <= 0: 0 below -126.
static inline __m256 exp2_f32(__m256 x) {
  const __m256 lowest = _mm256_set1_ps(-126.0f);
  const __m256 too_low = _mm256_cmp_ps(x, lowest, _CMP_LT_OQ);
  x = _mm256_max_ps(lowest, x);
  const __m256 n = round_to_whole(x);
  const __m256 r = _mm256_mul_ps(_mm256_sub_ps(x, n), _mm256_set1_ps(0.69314718f));
  return _mm256_andnot_ps(too_low, exp_scaled(r, n));
}

// tanh(x). Near 0 an odd polynomial (a least-maximum fit up to 0.625, relative error 5e-9), as the
// other form would cancel there; beyond it 1 - 2 / (exp(2|x|) + 1), with the sign of x.
static inline __m256 tanh_f32(__m256 x) {
  const __m256 sign_bit = _mm256_set1_ps(-0.0f);
  const __m256 size = _mm256_andnot_ps(sign_bit, x);

  const __m256 square = _mm256_mul_ps(size, size);
  __m256 p = _mm256_set1_ps(-0.005704986863f);
  p = _mm256_fmadd_ps(p, square, _mm256_set1_ps(0.020639088f));
  p = _mm256_fmadd_ps(p, square, _mm256_set1_ps(-0.05373971537f));
  p = _mm256_fmadd_ps(p, square, _mm256_set1_ps(0.1333144158f));
  p = _mm256_fmadd_ps(p, square, _mm256_set1_ps(-0.3333328068f));
  const __m256 near = _mm256_fmadd_ps(_mm256_mul_ps(size, square), p, size);

  const __m256 one = _mm256_set1_ps(1.0f);
  const __m256 denominator = _mm256_add_ps(exp_f32(_mm256_add_ps(size, size)), one);
  const __m256 far = _mm256_sub_ps(one, _mm256_div_ps(_mm256_set1_ps(2.0f), denominator));

  const __m256 is_near = _mm256_cmp_ps(size, _mm256_set1_ps(0.625f), _CMP_LT_OQ);
  return _mm256_or_ps(_mm256_blendv_ps(far, near, is_near), _mm256_and_ps(sign_bit, x));
}

// 16 results of one activation row; only the lanes that exist are touched.
static inline void load_lanes(const float* out, uint32_t lanes, __m256* low, __m256* high) {
  *low = _mm256_maskload_ps(out, first_lanes(lanes < 8 ? lanes : 8));
  *high = lanes > 8 ? _mm256_maskload_ps(out + 8, first_lanes(lanes - 8)) : _mm256_setzero_ps();
}

static inline void store_lanes(float* out, uint32_t lanes, __m256 low, __m256 high) {
  if (lanes == kRowGroup) {
    _mm256_storeu_ps(out, low);
    _mm256_storeu_ps(out + 8, high);
    return;
  }
  _mm256_maskstore_ps(out, first_lanes(lanes < 8 ? lanes : 8), low);
  if (lanes > 8) _mm256_maskstore_ps(out + 8, first_lanes(lanes - 8), high);
}

}  // namespace pacer::kernels::avx2
