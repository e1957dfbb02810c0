// The small pieces of reference quantisation, and the formats of 256 values. Included by
// reference_quant*.cpp alone.
#pragma once

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "tensor/code_block.h"

namespace pacer::tensor {

inline void store_u16(std::byte* dst, uint16_t bits) {
  std::memcpy(dst, &bits, sizeof bits);
}

inline void store_f16(std::byte* dst, float value) {
  CHECK(std::fabs(value) < 65520.0f, "scale {} does not fit an f16", value);
  store_u16(dst, f32_to_f16(value));
}

// 1/d, or 0 for a block of equal values, whose codes then do not matter (nor do they where d is so
// small that it becomes 0 as an f16).
inline float inverse(float d) {
  return std::fabs(d) >= FLT_MIN ? 1.0f / d : 0.0f;
}

inline int clamp_code(float scaled, int lowest, int highest) {
  const float rounded = std::floor(scaled + 0.5f);
  return static_cast<int>(
      std::clamp(rounded, static_cast<float>(lowest), static_cast<float>(highest)));
}

// The value of the largest magnitude, with its sign; the first of equals.
inline float extreme_of(const float* src, size_t count) {
  return *std::max_element(src, src + count,
                           [](float a, float b) { return std::fabs(a) < std::fabs(b); });
}

inline uint8_t nearest_iq4(float scaled) {
  uint8_t best = 0;
  for (uint8_t code = 1; code < 16; ++code) {
    const float best_distance = std::fabs(scaled - static_cast<float>(kIQ4Values[best]));
    if (std::fabs(scaled - static_cast<float>(kIQ4Values[code])) < best_distance) best = code;
  }
  return best;
}

// 32 codes: the low nibbles of 0-15 and 16-31 side by side.
inline void store_nibbles(const uint8_t* codes, std::byte* dst) {
  for (size_t j = 0; j < kCodeBlock / 2; ++j) {
    dst[j] = static_cast<std::byte>((codes[j] & 15) | (codes[j + kCodeBlock / 2] & 15) << 4);
  }
}

inline void store_fifth_bits(const uint8_t* codes, std::byte* dst) {
  uint32_t bits = 0;
  for (uint32_t j = 0; j < kCodeBlock; ++j) bits |= static_cast<uint32_t>(codes[j] >> 4) << j;
  std::memcpy(dst, &bits, sizeof bits);
}

// One block of 256 values each.
void quantize_q2k(const float* src, std::byte* block);
void quantize_q3k(const float* src, std::byte* block);
void quantize_q4k(const float* src, std::byte* block);
void quantize_q5k(const float* src, std::byte* block);
void quantize_q6k(const float* src, std::byte* block);
void quantize_iq4xs(const float* src, std::byte* block);

}  // namespace pacer::tensor
