// What sampling asks of a row of logits: two passes each over some 200 KB (a vocabulary of 49152),
// from L2.
//
// Bound: L2 reads for arg_max, the exponential for log_sum_exp.

#include <immintrin.h>

#include "kernels/avx2/kernels.h"
#include "kernels/avx2/simd.h"

namespace pacer::kernels::avx2 {

namespace {

constexpr float kInfinity = __builtin_inff();

// Lanes [0, count) of x, the others -infinity.
inline __m256 load_or_lowest(const float* x, uint32_t count) {
  const __m256i exists = first_lanes(count < 8 ? count : 8);
  const __m256 lowest = _mm256_set1_ps(-kInfinity);
  return _mm256_blendv_ps(lowest, _mm256_maskload_ps(x, exists), _mm256_castsi256_ps(exists));
}

// The greatest value that is a number; -infinity when there is none.
float max_of(const float* x, uint32_t n) {
  __m256 max[4];
  for (uint32_t j = 0; j < 4; ++j) max[j] = _mm256_set1_ps(-kInfinity);
  uint32_t i = 0;
  // The instruction returns its second operand when one is NaN: the maximum so far.
  for (; i + 32 <= n; i += 32) {
    for (uint32_t j = 0; j < 4; ++j) max[j] = _mm256_max_ps(_mm256_loadu_ps(x + i + 8 * j), max[j]);
  }
  for (; i < n; i += 8) max[0] = _mm256_max_ps(load_or_lowest(x + i, n - i), max[0]);
  return max_lanes(_mm256_max_ps(_mm256_max_ps(max[0], max[1]), _mm256_max_ps(max[2], max[3])));
}

}  // namespace

uint32_t arg_max(const float* x, uint32_t n) {
  const float max = max_of(x, n);
  const __m256 wanted = _mm256_set1_ps(max);
  uint32_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 equal = _mm256_cmp_ps(_mm256_loadu_ps(x + i), wanted, _CMP_EQ_OQ);
    const int lanes = _mm256_movemask_ps(equal);
    if (lanes != 0) return i + (uint32_t)__builtin_ctz((unsigned)lanes);
  }
  for (; i < n; ++i) {
    if (x[i] == max) return i;
  }
  return 0;  // every value is NaN
}

float log_sum_exp(const float* x, uint32_t n) {
  const float max = max_of(x, n);
  if (max == kInfinity || max == -kInfinity) return max;
  const __m256 around = _mm256_set1_ps(max);
  __m256 sum[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  uint32_t i = 0;
  for (; i + 16 <= n; i += 16) {
    sum[0] = _mm256_add_ps(sum[0], exp_f32(_mm256_sub_ps(_mm256_loadu_ps(x + i), around)));
    sum[1] = _mm256_add_ps(sum[1], exp_f32(_mm256_sub_ps(_mm256_loadu_ps(x + i + 8), around)));
  }
  for (; i < n; i += 8) {
    sum[0] = _mm256_add_ps(sum[0], exp_f32(_mm256_sub_ps(load_or_lowest(x + i, n - i), around)));
  }
  return max + __builtin_logf(sum_lanes(_mm256_add_ps(sum[0], sum[1])));
}

double exp_weights(const float* x, uint32_t n, float shift, float scale, float* out) {
  const __m256 shift8 = _mm256_set1_ps(shift);
  const __m256 scale8 = _mm256_set1_ps(scale);
  __m256d sum[2] = {_mm256_setzero_pd(), _mm256_setzero_pd()};
  for (uint32_t i = 0; i < n; i += 8) {
    const __m256i exists = first_lanes(n - i < 8 ? n - i : 8);
    const __m256 shifted = _mm256_sub_ps(_mm256_maskload_ps(x + i, exists), shift8);
    const __m256 all = exp_f32(_mm256_mul_ps(shifted, scale8));
    const __m256 weight = _mm256_and_ps(all, _mm256_castsi256_ps(exists));
    _mm256_maskstore_ps(out + i, exists, weight);
    sum[0] = _mm256_add_pd(sum[0], _mm256_cvtps_pd(_mm256_castps256_ps128(weight)));
    sum[1] = _mm256_add_pd(sum[1], _mm256_cvtps_pd(_mm256_extractf128_ps(weight, 1)));
  }
  const __m256d both = _mm256_add_pd(sum[0], sum[1]);
  const __m128d half = _mm_add_pd(_mm256_castpd256_pd128(both), _mm256_extractf128_pd(both, 1));
  return _mm_cvtsd_f64(_mm_add_sd(half, _mm_unpackhi_pd(half, half)));
}

}  // namespace pacer::kernels::avx2
