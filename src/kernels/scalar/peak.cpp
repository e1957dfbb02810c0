// Ceilings of baseline x86-64, by plain loops that the compiler turns into SSE2.
//
// An empty asm statement that claims to change a value keeps the compiler from computing the loop
// away.

#include "kernels/peak_loops.h"

namespace pacer::kernels::scalar {

uint64_t peak_f32(uint64_t rounds) {
  constexpr uint32_t kLanes = 32;  // 8 vectors: enough independent chains to hide the latency
  alignas(64) float sum[kLanes] = {};
  float factor = 0.999f;
  for (uint64_t i = 0; i < rounds; ++i) {
    asm volatile("" : "+x"(factor));
    for (uint32_t j = 0; j < kLanes; ++j) sum[j] = sum[j] * factor + 0.5f;
  }
  asm volatile("" : : "m"(sum));
  return rounds * kLanes * 2;
}

uint64_t peak_int8(uint64_t rounds) {
  constexpr uint32_t kPairs = 64;
  alignas(64) int16_t x[2 * kPairs];
  alignas(64) int32_t sum[kPairs] = {};
  for (uint32_t j = 0; j < 2 * kPairs; ++j) x[j] = static_cast<int16_t>(j % 100);
  for (uint64_t i = 0; i < rounds; ++i) {
    asm volatile("" : "+m"(x));
    for (uint32_t j = 0; j < kPairs; ++j) {
      sum[j] += x[2 * j] * x[2 * j] + x[2 * j + 1] * x[2 * j + 1];
    }
  }
  asm volatile("" : : "m"(sum));
  return rounds * kPairs * 4;
}

uint64_t read_all(const void* buffer, size_t bytes) {
  const uint64_t* at = static_cast<const uint64_t*>(buffer);
  uint64_t sum[8] = {};
  for (size_t i = 0; i + 8 <= bytes / 8; i += 8) {
    for (uint32_t j = 0; j < 8; ++j) sum[j] ^= at[i + j];
  }
  asm volatile("" : : "m"(sum));
  return bytes / 64 * 64;
}

}  // namespace pacer::kernels::scalar
