// Activations to int8 blocks of 32. Bit-equal to scalar/elementwise.cpp: the same divisions, ties
// to even.
//
// Bound: the two divisions of a block, which wait for each other and for the maximum.

#include <immintrin.h>

#include "kernels/avx2/kernels.h"
#include "kernels/avx2/simd.h"

namespace pacer::kernels::avx2 {

namespace {

constexpr float kSmallestNormal = 1.17549435e-38f;

// half_sums: [2].
void quantize_block(const float* x, int8_t* values, float* scale, float* sum, float* half_sums) {
  const __m256 x0 = _mm256_loadu_ps(x);
  const __m256 x1 = _mm256_loadu_ps(x + 8);
  const __m256 x2 = _mm256_loadu_ps(x + 16);
  const __m256 x3 = _mm256_loadu_ps(x + 24);

  const __m256 sign = _mm256_set1_ps(-0.0f);
  const __m256 max01 = _mm256_max_ps(_mm256_andnot_ps(sign, x0), _mm256_andnot_ps(sign, x1));
  const __m256 max23 = _mm256_max_ps(_mm256_andnot_ps(sign, x2), _mm256_andnot_ps(sign, x3));
  const float max = max_lanes(_mm256_max_ps(max01, max23));

  *scale = max / 127.0f;
  const bool is_zero = *scale < kSmallestNormal;  // why: scalar/elementwise.cpp
  if (is_zero) *scale = 0;
  const __m256 inverse = _mm256_set1_ps(is_zero ? 0.0f : 127.0f / max);

  const __m256i i0 = _mm256_cvtps_epi32(_mm256_mul_ps(x0, inverse));
  const __m256i i1 = _mm256_cvtps_epi32(_mm256_mul_ps(x1, inverse));
  const __m256i i2 = _mm256_cvtps_epi32(_mm256_mul_ps(x2, inverse));
  const __m256i i3 = _mm256_cvtps_epi32(_mm256_mul_ps(x3, inverse));

  // Packing works within 128-bit halves, so groups of four values come out as 0 2 4 6 1 3 5 7; put
  // them in order.
  const __m256i i01 = _mm256_packs_epi32(i0, i1);
  const __m256i i23 = _mm256_packs_epi32(i2, i3);
  const __m256i shuffled = _mm256_packs_epi16(i01, i23);
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_storeu_si256((__m256i*)values, _mm256_permutevar8x32_epi32(shuffled, order));

  // At most 32 * 127: exact in f32, so the order of adding does not matter.
  const float first = sum_lanes(_mm256_cvtepi32_ps(_mm256_add_epi32(i0, i1)));
  const float second = sum_lanes(_mm256_cvtepi32_ps(_mm256_add_epi32(i2, i3)));
  *sum = *scale * (first + second);
  half_sums[0] = *scale * first;
  half_sums[1] = *scale * second;
}

}  // namespace

void quantize_q8(const float* x, uint32_t columns, const Q8Row& out) {
  for (uint32_t b = 0; b < columns / kQuantBlock; ++b) {
    quantize_block(x + b * kQuantBlock, out.values + b * kQuantBlock, out.scales + b, out.sums + b,
                   out.half_sums + 2 * b);
  }
}

}  // namespace pacer::kernels::avx2
