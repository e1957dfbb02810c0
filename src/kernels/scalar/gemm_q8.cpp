// The contract of the integer tiers, block by block. Slow and obvious; used by tests.

#include "kernels/scalar/gemm_q8.h"

#include "kernels/scalar/gguf_rows.h"
#include "tensor/code_block.h"

namespace pacer::kernels::scalar {

namespace {

constexpr uint32_t kHalf = kQuantBlock / 2;

// Formats whose halves of a block have offsets of their own.
bool has_half_offsets(WeightFormat format) {
  return format == WeightFormat::kQ2K || format == WeightFormat::kQ3K ||
         format == WeightFormat::kQ6K;
}

// The integer of a block: codes times activations, each half times its scale.
int32_t integer_dot(tensor::DType dtype, const tensor::CodeBlock& block, const int8_t* x) {
  int8_t values[kQuantBlock];
  tensor::code_values(dtype, block.codes, values);
  int32_t sum = 0;
  for (uint32_t i = 0; i < kQuantBlock; ++i) {
    const int32_t q = values[i] + tensor::code_centre(dtype);  // as it is stored
    sum += block.scales[i / kHalf] * q * x[i];
  }
  return sum;
}

float offset_of(tensor::DType dtype, const tensor::CodeBlock& block, uint32_t half) {
  const auto centre = static_cast<float>(tensor::code_centre(dtype) * block.scales[half]);
  const auto min = static_cast<float>(block.mins[half]);
  return -tensor::f16_to_f32(block.d) * centre - tensor::f16_to_f32(block.m) * min;
}

float dot_row(const GemmArgs& args, uint32_t m, uint32_t n) {
  const tensor::DType dtype = dtype_of(args.format);
  const tensor::DTypeInfo info = *tensor::dtype_info(dtype);
  const uint32_t parts = info.block_values / kQuantBlock;
  const uint32_t blocks = args.x.columns / kQuantBlock;
  const std::byte* weights = row_at(args.format, args.packed, args.x.columns, n);
  const size_t x_row = static_cast<size_t>(m) * blocks;

  float total = args.accumulate ? args.out[m * args.out_stride + n] : 0.0f;
  for (uint32_t b = 0; b < blocks; ++b) {
    const size_t at = x_row + b;
    const tensor::CodeBlock block = tensor::read_code_block(
        dtype, weights + b / parts * static_cast<size_t>(info.block_bytes), b % parts);
    const int32_t integer = integer_dot(dtype, block, args.x.values + at * kQuantBlock);
    total += tensor::f16_to_f32(block.d) * args.x.scales[at] * static_cast<float>(integer);
    if (has_half_offsets(args.format)) {
      for (uint32_t h = 0; h < 2; ++h) {
        total += offset_of(dtype, block, h) * args.x.half_sums[2 * at + h];
      }
    } else {
      total += offset_of(dtype, block, 0) * args.x.sums[at];
    }
  }
  return total;
}

}  // namespace

void gemm_q8(const GemmArgs& args) {
  CHECK(args.x.values != nullptr, "gemm_q8 without q8 activations");
  CHECK(tensor::has_codes(dtype_of(args.format)), "gemm_q8 has no weight format {}",
        static_cast<int>(args.format));
  CHECK(args.x.columns % kQuantBlock == 0, "{} columns, not a multiple of {}", args.x.columns,
        kQuantBlock);
  for (uint32_t m = 0; m < args.x.rows; ++m) {
    for (uint32_t n = args.row_begin; n < args.row_end; ++n) {
      args.out[m * args.out_stride + n] = dot_row(args, m, n);
    }
  }
}

}  // namespace pacer::kernels::scalar
