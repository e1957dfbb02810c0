// Types, their sizes, and dequantize(), the definition that kernels are checked against. The bits
// of a quantised block are taken apart in code_block.cpp.
//
// Sources may be unaligned (a GGUF file may have alignment 1), so every multi-byte field is read
// with memcpy.
#include "tensor/dtype.h"

#include <array>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "tensor/code_block.h"

namespace pacer::tensor {
namespace {

constexpr std::array<const char*, 43> kGgmlTypeNames = {
    "F32",   "F16",        "Q4_0",       "Q4_1",       "Q4_2",     "Q4_3",     "Q5_0",
    "Q5_1",  "Q8_0",       "Q8_1",       "Q2_K",       "Q3_K",     "Q4_K",     "Q5_K",
    "Q6_K",  "Q8_K",       "IQ2_XXS",    "IQ2_XS",     "IQ3_XXS",  "IQ1_S",    "IQ4_NL",
    "IQ3_S", "IQ2_S",      "IQ4_XS",     "I8",         "I16",      "I32",      "I64",
    "F64",   "IQ1_M",      "BF16",       "Q4_0_4_4",   "Q4_0_4_8", "Q4_0_8_8", "TQ1_0",
    "TQ2_0", "IQ4_NL_4_4", "IQ4_NL_4_8", "IQ4_NL_8_8", "MXFP4",    "NVFP4",    "Q1_0",
    "Q2_0"};

uint16_t load_u16(const std::byte* src) {
  uint16_t bits;
  std::memcpy(&bits, src, sizeof bits);
  return bits;
}

}  // namespace

std::optional<DTypeInfo> dtype_info(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return DTypeInfo{"F32", 1, 4};
    case DType::kF16:
      return DTypeInfo{"F16", 1, 2};
    case DType::kBF16:
      return DTypeInfo{"BF16", 1, 2};
    case DType::kQ4_0:
      return DTypeInfo{"Q4_0", 32, 18};
    case DType::kQ4_1:
      return DTypeInfo{"Q4_1", 32, 20};
    case DType::kQ5_0:
      return DTypeInfo{"Q5_0", 32, 22};
    case DType::kQ5_1:
      return DTypeInfo{"Q5_1", 32, 24};
    case DType::kQ8_0:
      return DTypeInfo{"Q8_0", 32, 34};
    case DType::kQ2K:
      return DTypeInfo{"Q2_K", 256, 84};
    case DType::kQ3K:
      return DTypeInfo{"Q3_K", 256, 110};
    case DType::kQ4K:
      return DTypeInfo{"Q4_K", 256, 144};
    case DType::kQ5K:
      return DTypeInfo{"Q5_K", 256, 176};
    case DType::kQ6K:
      return DTypeInfo{"Q6_K", 256, 210};
    case DType::kIQ4NL:
      return DTypeInfo{"IQ4_NL", 32, 18};
    case DType::kIQ4XS:
      return DTypeInfo{"IQ4_XS", 256, 136};
  }
  return std::nullopt;  // the number came from a file and is none of ours
}

std::string ggml_type_name(uint32_t type) {
  if (type < kGgmlTypeNames.size()) return kGgmlTypeNames[type];
  return "type " + std::to_string(type);
}

size_t row_bytes(DType dtype, size_t values) {
  const auto info = dtype_info(dtype);
  CHECK(info, "row_bytes of {}", ggml_type_name(static_cast<uint32_t>(dtype)));
  CHECK(values % info->block_values == 0, "{} values are no whole blocks of {}", values,
        info->name);
  return values / info->block_values * info->block_bytes;
}

void dequantize(DType dtype, const std::byte* src, size_t values, float* dst) {
  const size_t bytes = row_bytes(dtype, values);  // also checks the type and whole blocks
  switch (dtype) {
    case DType::kF32:
      if (bytes > 0) std::memcpy(dst, src, bytes);
      return;
    case DType::kF16:
      for (size_t i = 0; i < values; ++i) dst[i] = f16_to_f32(load_u16(src + 2 * i));
      return;
    case DType::kBF16:
      for (size_t i = 0; i < values; ++i) dst[i] = bf16_to_f32(load_u16(src + 2 * i));
      return;
    default:
      break;
  }
  const DTypeInfo info = *dtype_info(dtype);
  for (size_t i = 0; i < values; i += info.block_values, src += info.block_bytes) {
    for (uint32_t part = 0; part < info.block_values / kCodeBlock; ++part) {
      dequantize(dtype, read_code_block(dtype, src, part), dst + i + part * kCodeBlock);
    }
  }
}

float f16_to_f32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = (bits >> 10) & 31;
  const uint32_t mantissa = bits & 0x3ff;
  if (exponent == 0) {  // zero and subnormals: mantissa * 2^-24, exact and normal in f32
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  if (exponent == 31) {  // infinity, or NaN with its payload
    return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  }
  return std::bit_cast<float>(sign | ((exponent + 127 - 15) << 23) | (mantissa << 13));
}

// Integer arithmetic only, so that FTZ/DAZ, which every worker sets, cannot change a result.
uint16_t f32_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;

  if (magnitude > 0x7f800000) {  // NaN: keep the payload, but never let it become an infinity
    const uint32_t payload = (magnitude >> 13) & 0x3ff;
    return static_cast<uint16_t>(sign | 0x7c00 | (payload != 0 ? payload : 0x200));
  }
  // 65520 is half-way between the largest half, 65504, and the next power; ties go to even:
  // infinity.
  if (magnitude >= std::bit_cast<uint32_t>(65520.0f)) return static_cast<uint16_t>(sign | 0x7c00);

  if (magnitude < std::bit_cast<uint32_t>(0x1p-14f)) {  // a subnormal half, in units of 2^-24
    const uint32_t exponent = magnitude >> 23;
    const uint32_t mantissa =
        (magnitude & 0x7fffff) | 0x800000;  // value = mantissa * 2^(exponent-150)
    const uint32_t shift = 126 - exponent;
    if (shift > 24) return static_cast<uint16_t>(sign);  // below half a unit
    const uint32_t floor = mantissa >> shift;
    const uint32_t rest = mantissa & ((1u << shift) - 1);
    const uint32_t tie = 1u << (shift - 1);
    const bool up = rest > tie || (rest == tie && (floor & 1) != 0);
    return static_cast<uint16_t>(sign | (floor + (up ? 1 : 0)));
  }

  const uint32_t rounded =
      magnitude + 0xfff + ((magnitude >> 13) & 1);  // may carry into the exponent
  return static_cast<uint16_t>(sign | ((rounded - ((127u - 15) << 23)) >> 13));
}

float bf16_to_f32(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

uint16_t f32_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) >
      0x7f800000) {  // NaN: keep the payload, but never let it become an infinity
    const uint32_t top = bits >> 16;
    return static_cast<uint16_t>((top & 0x7f) != 0 ? top : top | 0x40);
  }
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

}  // namespace pacer::tensor
