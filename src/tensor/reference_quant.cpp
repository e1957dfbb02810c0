// The blocks of dtype.h made from f32. Layouts: code_block.cpp; the K-quants and IQ4_XS:
// reference_quant_super.cpp.
#include "tensor/reference_quant.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "tensor/reference_quant_block.h"

namespace pacer::tensor {
namespace {

constexpr size_t kBlock = 32;

// Q4_0: codes run from -8 to 7, Q5_0 from -16 to 15: the value of the largest magnitude is placed
// at the lowest, whatever its sign.
void quantize_centred(const float* src, int centre, std::byte* block) {
  const float d = extreme_of(src, kBlock) / static_cast<float>(-centre);
  uint8_t codes[kBlock];
  for (size_t j = 0; j < kBlock; ++j) {
    codes[j] = static_cast<uint8_t>(
        clamp_code(src[j] * inverse(d) + static_cast<float>(centre), 0, 2 * centre - 1));
  }
  store_f16(block, d);
  if (centre == 16) {
    store_fifth_bits(codes, block + 2);
    store_nibbles(codes, block + 6);
  } else {
    store_nibbles(codes, block + 2);
  }
}

// Q4_1, Q5_1: from the lowest value in `steps` steps to the highest.
void quantize_from_minimum(const float* src, int steps, std::byte* block) {
  const auto [low, high] = std::minmax_element(src, src + kBlock);
  const float m = *low;
  const float d = (*high - *low) / static_cast<float>(steps);
  uint8_t codes[kBlock];
  for (size_t j = 0; j < kBlock; ++j) {
    codes[j] = static_cast<uint8_t>(clamp_code((src[j] - m) * inverse(d), 0, steps));
  }
  store_f16(block, d);
  store_f16(block + 2, m);
  if (steps == 31) {
    store_fifth_bits(codes, block + 4);
    store_nibbles(codes, block + 8);
  } else {
    store_nibbles(codes, block + 4);
  }
}

void quantize_q8_0(const float* src, std::byte* block) {
  const float d = std::fabs(extreme_of(src, kBlock)) / 127.0f;
  store_f16(block, d);
  for (size_t j = 0; j < kBlock; ++j) {
    block[2 + j] = static_cast<std::byte>(clamp_code(src[j] * inverse(d), -127, 127));
  }
}

// The value of the largest magnitude is placed at -127, the table's end that reaches further.
void quantize_iq4nl(const float* src, std::byte* block) {
  const float d = extreme_of(src, kBlock) / -127.0f;
  uint8_t codes[kBlock];
  for (size_t j = 0; j < kBlock; ++j) codes[j] = nearest_iq4(src[j] * inverse(d));
  store_f16(block, d);
  store_nibbles(codes, block + 2);
}

using QuantizeBlock = void (*)(const float* src, std::byte* block);

QuantizeBlock quantize_block_of(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0:
      return [](const float* src, std::byte* block) { quantize_centred(src, 8, block); };
    case DType::kQ5_0:
      return [](const float* src, std::byte* block) { quantize_centred(src, 16, block); };
    case DType::kQ4_1:
      return [](const float* src, std::byte* block) { quantize_from_minimum(src, 15, block); };
    case DType::kQ5_1:
      return [](const float* src, std::byte* block) { quantize_from_minimum(src, 31, block); };
    case DType::kQ8_0:
      return quantize_q8_0;
    case DType::kIQ4NL:
      return quantize_iq4nl;
    case DType::kQ2K:
      return quantize_q2k;
    case DType::kQ3K:
      return quantize_q3k;
    case DType::kQ4K:
      return quantize_q4k;
    case DType::kQ5K:
      return quantize_q5k;
    case DType::kQ6K:
      return quantize_q6k;
    case DType::kIQ4XS:
      return quantize_iq4xs;
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      break;
  }
  CHECK(false, "{} has no codes", ggml_type_name(static_cast<uint32_t>(dtype)));
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
    default:
      break;
  }
  const DTypeInfo info = *dtype_info(dtype);
  const QuantizeBlock quantize_block = quantize_block_of(dtype);
  for (size_t i = 0; i < values; i += info.block_values, dst += info.block_bytes) {
    quantize_block(src + i, dst);
  }
}

std::vector<std::byte> quantize(DType dtype, const std::vector<float>& src) {
  std::vector<std::byte> bytes(row_bytes(dtype, src.size()));
  quantize(dtype, src.data(), src.size(), bytes.data());
  return bytes;
}

}  // namespace pacer::tensor
