// Row-wise and element-wise parts, eight values at a time. Tails go through masked loads and
// stores, which read and write only the lanes that exist, so the arithmetic of a value does not
// depend on where it stands.
//
// Bound: memory (L1/L2) for add and rope; about 25 vector instructions for 8 values of silu_mul
// and gelu_mul, most of them exp; about 40 of soft_cap.

#include <immintrin.h>

#include "kernels/avx2/kernels.h"
#include "kernels/avx2/simd.h"

namespace pacer::kernels::avx2 {

namespace {

inline __m256 silu_times(__m256 gate, __m256 up) {
  const __m256 minus_gate = _mm256_xor_ps(gate, _mm256_set1_ps(-0.0f));
  const __m256 denominator = _mm256_add_ps(_mm256_set1_ps(1.0f), exp_f32(minus_gate));
  return _mm256_mul_ps(_mm256_div_ps(gate, denominator), up);
}

// 0.5 (1 + tanh(u)) is 1 / (1 + exp(-2u)): so written, nothing cancels where gate is far below 0.
inline __m256 gelu_times(__m256 gate, __m256 up) {
  const __m256 square = _mm256_mul_ps(gate, gate);
  const __m256 cubic =
      _mm256_fmadd_ps(_mm256_mul_ps(_mm256_set1_ps(0.044715f), square), gate, gate);
  const __m256 minus_2u = _mm256_mul_ps(_mm256_set1_ps(-2 * 0.7978845608f), cubic);
  const __m256 denominator = _mm256_add_ps(_mm256_set1_ps(1.0f), exp_f32(minus_2u));
  return _mm256_mul_ps(_mm256_div_ps(gate, denominator), up);
}

float sum_of_squares(const float* x, uint32_t n) {
  __m256 sum[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(),
                   _mm256_setzero_ps()};
  uint32_t i = 0;
  for (; i + 32 <= n; i += 32) {
    for (uint32_t j = 0; j < 4; ++j) {
      const __m256 v = _mm256_loadu_ps(x + i + 8 * j);
      sum[j] = _mm256_fmadd_ps(v, v, sum[j]);
    }
  }
  for (; i < n; i += 8) {
    const __m256i exists = first_lanes(n - i < 8 ? n - i : 8);
    const __m256 v = _mm256_maskload_ps(x + i, exists);
    sum[0] = _mm256_fmadd_ps(v, v, sum[0]);
  }
  return sum_lanes(_mm256_add_ps(_mm256_add_ps(sum[0], sum[1]), _mm256_add_ps(sum[2], sum[3])));
}

// (x0, x1) pairs side by side; cos and sin of four pairs at a time.
void rotate_adjacent(float* x, uint32_t pairs, const float* cos, const float* sin) {
  const __m256i twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
  uint32_t i = 0;
  for (; i + 4 <= pairs; i += 4) {
    const __m256 v = _mm256_loadu_ps(x + 2 * i);
    const __m256 swapped = _mm256_permute_ps(v, 0xb1);  // x1 x0 x3 x2 ...
    const __m256 c = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(cos + i)), twice);
    const __m256 s = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(sin + i)), twice);
    // Even lanes x0 c - x1 s, odd lanes x1 c + x0 s.
    const __m256 turned = _mm256_addsub_ps(_mm256_mul_ps(v, c), _mm256_mul_ps(swapped, s));
    _mm256_storeu_ps(x + 2 * i, turned);
  }
  for (; i < pairs; ++i) {
    const float x0 = x[2 * i];
    const float x1 = x[2 * i + 1];
    x[2 * i] = x0 * cos[i] - x1 * sin[i];
    x[2 * i + 1] = x1 * cos[i] + x0 * sin[i];
  }
}

void rotate_halves(float* x, uint32_t pairs, const float* cos, const float* sin) {
  for (uint32_t i = 0; i < pairs; i += 8) {
    const __m256i exists = first_lanes(pairs - i < 8 ? pairs - i : 8);
    const __m256 x0 = _mm256_maskload_ps(x + i, exists);
    const __m256 x1 = _mm256_maskload_ps(x + pairs + i, exists);
    const __m256 c = _mm256_maskload_ps(cos + i, exists);
    const __m256 s = _mm256_maskload_ps(sin + i, exists);
    const __m256 turned0 = _mm256_sub_ps(_mm256_mul_ps(x0, c), _mm256_mul_ps(x1, s));
    const __m256 turned1 = _mm256_add_ps(_mm256_mul_ps(x0, s), _mm256_mul_ps(x1, c));
    _mm256_maskstore_ps(x + i, exists, turned0);
    _mm256_maskstore_ps(x + pairs + i, exists, turned1);
  }
}

}  // namespace

void rms_norm(const float* x, const float* weight, float epsilon, uint32_t n, float* out) {
  const float mean = sum_of_squares(x, n) / (float)n;
  const float root = _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(mean + epsilon)));
  const __m256 inverse = _mm256_set1_ps(1.0f / root);
  for (uint32_t i = 0; i < n; i += 8) {
    const __m256i exists = first_lanes(n - i < 8 ? n - i : 8);
    const __m256 scaled = _mm256_mul_ps(_mm256_maskload_ps(x + i, exists), inverse);
    const __m256 w = _mm256_maskload_ps(weight + i, exists);
    _mm256_maskstore_ps(out + i, exists, _mm256_mul_ps(scaled, w));
  }
}

void add(const float* x, const float* y, uint32_t n, float* out) {
  uint32_t i = 0;
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(out + i, _mm256_add_ps(_mm256_loadu_ps(x + i), _mm256_loadu_ps(y + i)));
  }
  for (; i < n; ++i) out[i] = x[i] + y[i];
}

void silu_mul(const float* gate, const float* up, uint32_t n, float* out) {
  for (uint32_t i = 0; i < n; i += 8) {
    const __m256i exists = first_lanes(n - i < 8 ? n - i : 8);
    const __m256 g = _mm256_maskload_ps(gate + i, exists);
    const __m256 u = _mm256_maskload_ps(up + i, exists);
    _mm256_maskstore_ps(out + i, exists, silu_times(g, u));
  }
}

void gelu_mul(const float* gate, const float* up, uint32_t n, float* out) {
  for (uint32_t i = 0; i < n; i += 8) {
    const __m256i exists = first_lanes(n - i < 8 ? n - i : 8);
    const __m256 g = _mm256_maskload_ps(gate + i, exists);
    const __m256 u = _mm256_maskload_ps(up + i, exists);
    _mm256_maskstore_ps(out + i, exists, gelu_times(g, u));
  }
}

void soft_cap(const float* x, float cap, uint32_t n, float* out) {
  const __m256 scale = _mm256_set1_ps(cap);
  for (uint32_t i = 0; i < n; i += 8) {
    const __m256i exists = first_lanes(n - i < 8 ? n - i : 8);
    const __m256 t = tanh_f32(_mm256_div_ps(_mm256_maskload_ps(x + i, exists), scale));
    _mm256_maskstore_ps(out + i, exists, _mm256_mul_ps(t, scale));
  }
}

void rope(const RopeArgs& args) {
  const uint32_t pairs = args.dims / 2;
  for (uint32_t head = 0; head < args.heads; ++head) {
    float* x = args.x + (size_t)head * args.head_dim;
    if (args.pairing == RopePairing::kAdjacent) {
      rotate_adjacent(x, pairs, args.cos, args.sin);
    } else {
      rotate_halves(x, pairs, args.cos, args.sin);
    }
  }
}

}  // namespace pacer::kernels::avx2
