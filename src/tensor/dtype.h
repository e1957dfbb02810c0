// Element types of GGUF tensors and the shape of their blocks. Numbers are those of the GGUF
// specification (ggml_type).
//
// Owns what the bytes mean; how to multiply them fast is kernels/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pacer::tensor {

enum class DType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2K = 10,
  kQ3K = 11,
  kQ4K = 12,
  kQ5K = 13,
  kQ6K = 14,
  kIQ4NL = 20,
  kIQ4XS = 23,
  kBF16 = 30,
};

struct DTypeInfo {
  std::string_view name;
  uint32_t block_values;  // values in one block
  uint32_t block_bytes;   // bytes of one block
};

// Nothing for a type this program cannot compute with.
std::optional<DTypeInfo> dtype_info(DType dtype);

// The name of any GGUF type number, known here or not, for error messages ("Q5_K", "type 99").
std::string ggml_type_name(uint32_t type);

// Bytes of a row of `values` values. `values` is a multiple of the block.
size_t row_bytes(DType dtype, size_t values);

// The definition of every format: `values` values (a multiple of the block) from src, as f32.
void dequantize(DType dtype, const std::byte* src, size_t values, float* dst);

float f16_to_f32(uint16_t bits);
uint16_t f32_to_f16(float value);  // round to nearest even
float bf16_to_f32(uint16_t bits);
uint16_t f32_to_bf16(float value);  // round to nearest even

}  // namespace pacer::tensor
