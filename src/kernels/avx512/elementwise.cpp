// Element-wise parts whose cost is an exponential, sixteen values at a time. Tails go through
// masked loads and stores, which read and write only the lanes that exist, so the arithmetic of a
// value does not depend on where it stands. The same operations as avx2/elementwise.cpp, and so the
// same bits.
//
// Bound: about 25 vector instructions for 16 values, most of them exp; about 40 of soft_cap.

#include <immintrin.h>

#include "kernels/avx512/kernels.h"
#include "kernels/avx512/simd.h"

namespace pacer::kernels::avx512 {

namespace {

PACER_INLINE __mmask16 lanes_left(uint32_t left) {
  return first_lanes(left < 16 ? left : 16);
}

// gate / (1 + exp(exponent)) * up
PACER_INLINE __m512 gated(__m512 gate, __m512 exponent, __m512 up) {
  const __m512 denominator = _mm512_add_ps(_mm512_set1_ps(1.0f), exp_f32(exponent));
  return _mm512_mul_ps(_mm512_div_ps(gate, denominator), up);
}

}  // namespace

void silu_mul(const float* gate, const float* up, uint32_t n, float* out) {
  for (uint32_t i = 0; i < n; i += 16) {
    const __mmask16 exists = lanes_left(n - i);
    const __m512 g = _mm512_maskz_loadu_ps(exists, gate + i);
    const __m512 u = _mm512_maskz_loadu_ps(exists, up + i);
    const __m512 minus_g = _mm512_xor_ps(g, _mm512_set1_ps(-0.0f));
    _mm512_mask_storeu_ps(out + i, exists, gated(g, minus_g, u));
  }
}

// 0.5 (1 + tanh(u)) is 1 / (1 + exp(-2u)): so written, nothing cancels where gate is far below 0.
void gelu_mul(const float* gate, const float* up, uint32_t n, float* out) {
  for (uint32_t i = 0; i < n; i += 16) {
    const __mmask16 exists = lanes_left(n - i);
    const __m512 g = _mm512_maskz_loadu_ps(exists, gate + i);
    const __m512 u = _mm512_maskz_loadu_ps(exists, up + i);
    const __m512 square = _mm512_mul_ps(_mm512_set1_ps(0.044715f), _mm512_mul_ps(g, g));
    const __m512 cubic = _mm512_fmadd_ps(square, g, g);
    const __m512 minus_2u = _mm512_mul_ps(_mm512_set1_ps(-2 * 0.7978845608f), cubic);
    _mm512_mask_storeu_ps(out + i, exists, gated(g, minus_2u, u));
  }
}

void soft_cap(const float* x, float cap, uint32_t n, float* out) {
  const __m512 scale = _mm512_set1_ps(cap);
  for (uint32_t i = 0; i < n; i += 16) {
    const __mmask16 exists = lanes_left(n - i);
    const __m512 t = tanh_f32(_mm512_div_ps(_mm512_maskz_loadu_ps(exists, x + i), scale));
    _mm512_mask_storeu_ps(out + i, exists, _mm512_mul_ps(t, scale));
  }
}

}  // namespace pacer::kernels::avx512
