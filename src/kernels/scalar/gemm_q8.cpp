// The contract of the integer tiers, block by block. Slow and obvious; used by tests.

#include "kernels/scalar/gemm_q8.h"

#include <cstring>

#include "kernels/scalar/gguf_rows.h"

namespace pacer::kernels::scalar {

namespace {

// One weight block as an integer tier sees it: weight i is scale * q[i] + offset.
struct QuantBlock {
  float scale;
  float offset;
  int32_t q[kQuantBlock];
};

float read_f16(const std::byte* at) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return tensor::f16_to_f32(bits);
}

// GGUF keeps value i in the low nibble of byte i and value i + 16 in the high one.
void read_nibbles(const std::byte* at, int32_t (&q)[kQuantBlock]) {
  for (uint32_t i = 0; i < kQuantBlock / 2; ++i) {
    const int32_t byte = static_cast<uint8_t>(at[i]);
    q[i] = byte & 15;
    q[i + kQuantBlock / 2] = byte >> 4;
  }
}

QuantBlock read_block(WeightFormat format, const std::byte* at) {
  QuantBlock block{};
  block.scale = read_f16(at);
  switch (format) {
    case WeightFormat::kQ4_0:
      block.offset = -8.0f * block.scale;
      read_nibbles(at + 2, block.q);
      break;
    case WeightFormat::kQ4_1:
      block.offset = read_f16(at + 2);
      read_nibbles(at + 4, block.q);
      break;
    case WeightFormat::kQ8_0:
      for (uint32_t i = 0; i < kQuantBlock; ++i) block.q[i] = static_cast<int8_t>(at[2 + i]);
      break;
    default:
      CHECK(false, "gemm_q8 has no weight format {}", static_cast<int>(format));
  }
  return block;
}

float dot_row(const GemmArgs& args, uint32_t m, uint32_t n) {
  const uint32_t blocks = args.x.columns / kQuantBlock;
  const size_t block_bytes = tensor::row_bytes(dtype_of(args.format), kQuantBlock);
  const std::byte* weights = row_at(args.format, args.packed, args.x.columns, n);
  const int8_t* values = args.x.values + static_cast<size_t>(m) * args.x.columns;
  const float* scales = args.x.scales + static_cast<size_t>(m) * blocks;
  const float* sums = args.x.sums + static_cast<size_t>(m) * blocks;

  float total = args.accumulate ? args.out[m * args.out_stride + n] : 0.0f;
  for (uint32_t b = 0; b < blocks; ++b) {
    const QuantBlock block = read_block(args.format, weights + b * block_bytes);
    int32_t integer = 0;
    for (uint32_t i = 0; i < kQuantBlock; ++i) integer += block.q[i] * values[b * kQuantBlock + i];
    total += block.scale * scales[b] * static_cast<float>(integer);
    total += block.offset * sums[b];
  }
  return total;
}

}  // namespace

void gemm_q8(const GemmArgs& args) {
  CHECK(args.x.values != nullptr, "gemm_q8 without q8 activations");
  CHECK(args.x.columns % kQuantBlock == 0, "{} columns, not a multiple of {}", args.x.columns,
        kQuantBlock);
  for (uint32_t m = 0; m < args.x.rows; ++m) {
    for (uint32_t n = args.row_begin; n < args.row_end; ++n) {
      args.out[m * args.out_stride + n] = dot_row(args, m, n);
    }
  }
}

}  // namespace pacer::kernels::scalar
