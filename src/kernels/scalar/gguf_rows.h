// Where a weight row is in the scalar layout, and which GGUF type a kernel format is.
#pragma once

#include "base/check.h"
#include "kernels/args.h"
#include "tensor/dtype.h"

namespace pacer::kernels::scalar {

inline tensor::DType dtype_of(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return tensor::DType::kF32;
    case WeightFormat::kF16:
      return tensor::DType::kF16;
    case WeightFormat::kBF16:
      return tensor::DType::kBF16;
    case WeightFormat::kQ4_0:
      return tensor::DType::kQ4_0;
    case WeightFormat::kQ4_1:
      return tensor::DType::kQ4_1;
    case WeightFormat::kQ5_0:
      return tensor::DType::kQ5_0;
    case WeightFormat::kQ5_1:
      return tensor::DType::kQ5_1;
    case WeightFormat::kQ8_0:
      return tensor::DType::kQ8_0;
    case WeightFormat::kQ2K:
      return tensor::DType::kQ2K;
    case WeightFormat::kQ3K:
      return tensor::DType::kQ3K;
    case WeightFormat::kQ4K:
      return tensor::DType::kQ4K;
    case WeightFormat::kQ5K:
      return tensor::DType::kQ5K;
    case WeightFormat::kQ6K:
      return tensor::DType::kQ6K;
    case WeightFormat::kIQ4NL:
      return tensor::DType::kIQ4NL;
    case WeightFormat::kIQ4XS:
      return tensor::DType::kIQ4XS;
  }
  CHECK(false, "weight format {}", static_cast<int>(format));
}

inline const std::byte* row_at(WeightFormat format, const void* packed, uint32_t columns,
                               uint32_t row) {
  return static_cast<const std::byte*>(packed) + row * tensor::row_bytes(dtype_of(format), columns);
}

}  // namespace pacer::kernels::scalar
