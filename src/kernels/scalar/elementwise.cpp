// Row-wise and element-wise parts, one value at a time.

#include <cfloat>
#include <cmath>

#include "kernels/scalar/kernels.h"

namespace pacer::kernels::scalar {

namespace {

// A block whose scale would be denormal counts as zeros: 127 / max would overflow, and worker
// threads flush denormals to zero anyway.
// half_sums: [2].
void quantize_block(const float* x, int8_t* values, float* scale, float* sum, float* half_sums) {
  float max = 0;
  for (uint32_t i = 0; i < kQuantBlock; ++i) max = std::fmax(max, std::fabs(x[i]));
  *scale = max / 127.0f;
  const bool is_zero = *scale < FLT_MIN;
  if (is_zero) *scale = 0;
  const float inverse = is_zero ? 0.0f : 127.0f / max;

  int32_t integer_sums[2] = {};
  for (uint32_t i = 0; i < kQuantBlock; ++i) {
    const int32_t value = static_cast<int32_t>(std::nearbyint(x[i] * inverse));  // ties to even
    values[i] = static_cast<int8_t>(value);
    integer_sums[i / (kQuantBlock / 2)] += value;
  }
  *sum = *scale * static_cast<float>(integer_sums[0] + integer_sums[1]);
  for (uint32_t h = 0; h < 2; ++h) half_sums[h] = *scale * static_cast<float>(integer_sums[h]);
}

// (x, y) turned by the angle whose cosine and sine are given.
void rotate(float& x, float& y, float cos, float sin) {
  const float old_x = x;
  const float old_y = y;
  x = old_x * cos - old_y * sin;
  y = old_x * sin + old_y * cos;
}

}  // namespace

void quantize_q8(const float* x, uint32_t columns, const Q8Row& out) {
  for (uint32_t b = 0; b < columns / kQuantBlock; ++b) {
    quantize_block(x + b * kQuantBlock, out.values + b * kQuantBlock, out.scales + b, out.sums + b,
                   out.half_sums + 2 * b);
  }
}

void rms_norm(const float* x, const float* weight, float epsilon, uint32_t n, float* out) {
  double squares = 0;
  for (uint32_t i = 0; i < n; ++i) squares += static_cast<double>(x[i]) * x[i];
  const float inverse = static_cast<float>(1.0 / std::sqrt(squares / n + epsilon));
  for (uint32_t i = 0; i < n; ++i) out[i] = x[i] * inverse * weight[i];
}

void add(const float* x, const float* y, uint32_t n, float* out) {
  for (uint32_t i = 0; i < n; ++i) out[i] = x[i] + y[i];
}

void silu_mul(const float* gate, const float* up, uint32_t n, float* out) {
  for (uint32_t i = 0; i < n; ++i) {
    const float silu = gate[i] / (1.0f + std::exp(-gate[i]));
    out[i] = silu * up[i];
  }
}

void gelu_mul(const float* gate, const float* up, uint32_t n, float* out) {
  constexpr float kSqrtTwoOverPi = 0.7978845608f;
  for (uint32_t i = 0; i < n; ++i) {
    const float g = gate[i];
    const float inner = kSqrtTwoOverPi * (g + 0.044715f * g * g * g);
    out[i] = 0.5f * g * (1.0f + std::tanh(inner)) * up[i];
  }
}

void soft_cap(const float* x, float cap, uint32_t n, float* out) {
  for (uint32_t i = 0; i < n; ++i) out[i] = cap * std::tanh(x[i] / cap);
}

void rope(const RopeArgs& args) {
  const uint32_t pairs = args.dims / 2;
  for (uint32_t head = 0; head < args.heads; ++head) {
    float* x = args.x + static_cast<size_t>(head) * args.head_dim;
    for (uint32_t i = 0; i < pairs; ++i) {
      if (args.pairing == RopePairing::kAdjacent) {
        rotate(x[2 * i], x[2 * i + 1], args.cos[i], args.sin[i]);
      } else {
        rotate(x[i], x[i + pairs], args.cos[i], args.sin[i]);
      }
    }
  }
}

}  // namespace pacer::kernels::scalar
