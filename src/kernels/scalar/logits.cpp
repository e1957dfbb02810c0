// What sampling asks of a row of logits.

#include <cmath>

#include "kernels/scalar/kernels.h"

namespace pacer::kernels::scalar {

uint32_t arg_max(const float* x, uint32_t n) {
  uint32_t best = n;  // none yet
  for (uint32_t i = 0; i < n; ++i) {
    if (std::isnan(x[i])) continue;
    if (best == n || x[i] > x[best]) best = i;
  }
  return best == n ? 0 : best;
}

float log_sum_exp(const float* x, uint32_t n) {
  float max = -INFINITY;
  for (uint32_t i = 0; i < n; ++i) max = std::fmax(max, x[i]);
  if (std::isinf(max)) return max;
  double sum = 0;
  for (uint32_t i = 0; i < n; ++i) sum += std::exp(x[i] - max);
  return max + static_cast<float>(std::log(sum));
}

double exp_weights(const float* x, uint32_t n, float shift, float scale, float* out) {
  double sum = 0;
  for (uint32_t i = 0; i < n; ++i) {
    out[i] = std::exp((x[i] - shift) * scale);
    sum += out[i];
  }
  return sum;
}

}  // namespace pacer::kernels::scalar
