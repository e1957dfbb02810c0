#include "tensor/reference_quant.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"

namespace pacer::tensor {
namespace {

constexpr size_t kBlock = 32;
constexpr size_t kHalfBlock = kBlock / 2;

void store_u16(std::byte* dst, uint16_t bits) {
  std::memcpy(dst, &bits, sizeof bits);
}

void store_f16(std::byte* dst, float value) {
  CHECK(std::fabs(value) < 65520.0f, "scale {} does not fit an f16", value);
  store_u16(dst, f32_to_f16(value));
}

// 1/d, or 0 for a block of equal values, whose codes then do not matter.
float inverse(float d) {
  return d != 0.0f ? 1.0f / d : 0.0f;
}

int clamp_code(float scaled, int lowest, int highest) {
  return std::clamp(static_cast<int>(std::floor(scaled + 0.5f)), lowest, highest);
}

void store_nibbles(const int* codes, std::byte* dst) {
  for (size_t j = 0; j < kHalfBlock; ++j) {
    dst[j] = static_cast<std::byte>(codes[j] | (codes[j + kHalfBlock] << 4));
  }
}

// Codes run from -8 to 7: the value of the largest magnitude is placed at -8, whatever its sign.
void quantize_q4_0(const float* src, std::byte* block) {
  const float extreme = *std::max_element(
      src, src + kBlock, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
  const float d = extreme / -8.0f;
  int codes[kBlock];
  for (size_t j = 0; j < kBlock; ++j) codes[j] = clamp_code(src[j] * inverse(d) + 8.0f, 0, 15);
  store_f16(block, d);
  store_nibbles(codes, block + 2);
}

void quantize_q4_1(const float* src, std::byte* block) {
  const auto [low, high] = std::minmax_element(src, src + kBlock);
  const float m = *low;
  const float d = (*high - *low) / 15.0f;
  int codes[kBlock];
  for (size_t j = 0; j < kBlock; ++j) codes[j] = clamp_code((src[j] - m) * inverse(d), 0, 15);
  store_f16(block, d);
  store_f16(block + 2, m);
  store_nibbles(codes, block + 4);
}

void quantize_q8_0(const float* src, std::byte* block) {
  float magnitude = 0.0f;
  for (size_t j = 0; j < kBlock; ++j) magnitude = std::max(magnitude, std::fabs(src[j]));
  const float d = magnitude / 127.0f;
  store_f16(block, d);
  for (size_t j = 0; j < kBlock; ++j) {
    block[2 + j] = static_cast<std::byte>(clamp_code(src[j] * inverse(d), -127, 127));
  }
}

}  // namespace

void quantize(DType dtype, const float* src, size_t values, std::byte* dst) {
  const size_t bytes = row_bytes(dtype, values);  // also checks the type and whole blocks
  for (size_t i = 0; i < values; ++i) CHECK(std::isfinite(src[i]), "value {} is {}", i, src[i]);
  switch (dtype) {
    case DType::kF32:
      if (bytes > 0) std::memcpy(dst, src, bytes);
      return;
    case DType::kF16:
      for (size_t i = 0; i < values; ++i) store_u16(dst + 2 * i, f32_to_f16(src[i]));
      return;
    case DType::kBF16:
      for (size_t i = 0; i < values; ++i) store_u16(dst + 2 * i, f32_to_bf16(src[i]));
      return;
    case DType::kQ4_0:
      for (size_t i = 0; i < values; i += kBlock, dst += 18) quantize_q4_0(src + i, dst);
      return;
    case DType::kQ4_1:
      for (size_t i = 0; i < values; i += kBlock, dst += 20) quantize_q4_1(src + i, dst);
      return;
    case DType::kQ8_0:
      for (size_t i = 0; i < values; i += kBlock, dst += 34) quantize_q8_0(src + i, dst);
      return;
    default:
      CHECK(false, "TODO");
  }
}

std::vector<std::byte> quantize(DType dtype, const std::vector<float>& src) {
  std::vector<std::byte> bytes(row_bytes(dtype, src.size()));
  quantize(dtype, src.data(), src.size(), bytes.data());
  return bytes;
}

}  // namespace pacer::tensor
