// Quantise f32 into any format of dtype.h: slow, obvious, the counterpart of dequantize().
//
// For tests (tiny models with known weights) and the seed of `pacer quantize`. Chooses each block's
// scale from the block alone, as the formats' reference implementation does: no search, no
// importance weights.
#pragma once

#include <cstddef>
#include <vector>

#include "tensor/dtype.h"

namespace pacer::tensor {

// `values` values, a multiple of the block, into row_bytes(dtype, values) bytes. Values are finite,
// and in the quantised formats small enough that a block's scale is a finite f16.
void quantize(DType dtype, const float* src, size_t values, std::byte* dst);

// The same into a buffer of its own.
std::vector<std::byte> quantize(DType dtype, const std::vector<float>& src);

}  // namespace pacer::tensor
