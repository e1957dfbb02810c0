// A quantised row taken apart: 32 columns at a time, whatever the format.
//
//   weight of column i = d * scales[h] * value(codes[i]) - m * mins[h]        h = i / 16
//
// read_code_block is the one place that knows where GGUF puts which bits. dequantize() is written
// against it, and so are the packers of kernels/ and the contract of their integer tiers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace pacer::tensor {

constexpr uint32_t kCodeBlock = 32;

struct CodeBlock {
  alignas(16) uint8_t codes[kCodeBlock];  // as stored, without sign; Q8_0: the bits of an int8
  uint16_t d;                             // f16
  uint16_t m;                             // f16; 0 in formats without a minimum
  int8_t scales[2];                       // 1 in formats that have d alone
  int8_t mins[2];  // -1 in formats that add m itself, 0 in those without a minimum
};

// False for F32, F16 and BF16.
bool has_codes(DType dtype);

// Part `part` (32 columns) of a GGUF block: 0 in formats of 32 values, 0..7 in those of 256.
CodeBlock read_code_block(DType dtype, const std::byte* block, uint32_t part);

// What is taken off a code to get its value: 8 for Q4_0; 0 where a code is its own value, or where
// its value is looked up.
int code_centre(DType dtype);

// The values that the codes stand for. All fit an int8.
void code_values(DType dtype, const uint8_t (&codes)[kCodeBlock], int8_t (&values)[kCodeBlock]);

// The 32 weights.
void dequantize(DType dtype, const CodeBlock& block, float* dst);

// The values that 4-bit codes of IQ4_NL and IQ4_XS stand for (GGUF specification).
constexpr int8_t kIQ4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                   1,    13,   25,  38,  53,  69,  89,  113};

}  // namespace pacer::tensor
