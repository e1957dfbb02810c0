// Packing of the scalar tier is a copy: the layout is the GGUF rows, and unpack_row is the
// definition of the format.

#include <cstring>

#include "base/math.h"
#include "kernels/scalar/gguf_rows.h"
#include "kernels/scalar/kernels.h"

namespace pacer::kernels::scalar {

size_t packed_bytes(WeightFormat format, uint32_t rows, uint32_t columns) {
  return round_up<size_t>(rows * tensor::row_bytes(dtype_of(format), columns), 64);
}

void pack(const PackArgs& args) {
  CHECK(args.row_begin <= args.row_end && args.row_end <= args.rows, "rows {}..{} of {}",
        args.row_begin, args.row_end, args.rows);
  const size_t row_bytes = tensor::row_bytes(dtype_of(args.format), args.columns);
  const size_t begin = args.row_begin * row_bytes;
  const size_t end = args.row_end * row_bytes;
  std::byte* packed = static_cast<std::byte*>(args.packed);
  std::memcpy(packed + begin, static_cast<const std::byte*>(args.source) + begin, end - begin);
  if (args.row_end == args.rows) {
    std::memset(packed + end, 0, packed_bytes(args.format, args.rows, args.columns) - end);
  }
}

void unpack_row(WeightFormat format, const void* packed, uint32_t rows, uint32_t columns,
                uint32_t row, float* out) {
  CHECK(row < rows, "row {} of {}", row, rows);
  tensor::dequantize(dtype_of(format), row_at(format, packed, columns, row), columns, out);
}

}  // namespace pacer::kernels::scalar
