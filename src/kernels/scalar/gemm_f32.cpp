// The oracle: weights dequantised to f32 by their definition, then plain f32 dot products.
//
// A few weight rows are dequantised once and used for all activation rows. Every dot has the same
// eight partial sums, added in the same order, whichever loop computes it; the compiler turns the
// eight into vectors.
//
// Bound: arithmetic of baseline x86-64 (SSE2, one multiply and one add for each weight).

#include "kernels/scalar/gguf_rows.h"
#include "kernels/scalar/kernels.h"

namespace pacer::kernels::scalar {

namespace {

constexpr uint32_t kChunk =
    1024;  // columns dequantised at a time: 4 rows of them are 16 KiB, a third of L1
constexpr uint32_t kRows = 4;  // weight rows that share one pass over the activations
constexpr uint32_t kPartials = 8;

float sum_of(const float (&partial)[kPartials]) {
  return ((partial[0] + partial[4]) + (partial[2] + partial[6])) +
         ((partial[1] + partial[5]) + (partial[3] + partial[7]));
}

float dot(const float* x, const float* w, uint32_t count) {
  float partial[kPartials] = {};
  uint32_t k = 0;
  for (; k + kPartials <= count; k += kPartials) {
    for (uint32_t i = 0; i < kPartials; ++i) partial[i] += x[k + i] * w[k + i];
  }
  for (uint32_t i = 0; k + i < count; ++i) partial[i] += x[k + i] * w[k + i];
  return sum_of(partial);
}

// Four dots with one x; each is computed exactly as dot() does.
void dot4(const float* x, const float (&w)[kRows][kChunk], uint32_t count, float (&result)[kRows]) {
  float p0[kPartials] = {}, p1[kPartials] = {}, p2[kPartials] = {}, p3[kPartials] = {};
  uint32_t k = 0;
  for (; k + kPartials <= count; k += kPartials) {
    for (uint32_t i = 0; i < kPartials; ++i) p0[i] += x[k + i] * w[0][k + i];
    for (uint32_t i = 0; i < kPartials; ++i) p1[i] += x[k + i] * w[1][k + i];
    for (uint32_t i = 0; i < kPartials; ++i) p2[i] += x[k + i] * w[2][k + i];
    for (uint32_t i = 0; i < kPartials; ++i) p3[i] += x[k + i] * w[3][k + i];
  }
  for (uint32_t i = 0; k + i < count; ++i) {
    p0[i] += x[k + i] * w[0][k + i];
    p1[i] += x[k + i] * w[1][k + i];
    p2[i] += x[k + i] * w[2][k + i];
    p3[i] += x[k + i] * w[3][k + i];
  }
  result[0] = sum_of(p0);
  result[1] = sum_of(p1);
  result[2] = sum_of(p2);
  result[3] = sum_of(p3);
}

// Columns [k, k + count) of weight rows [n, n + row_count), for every activation row.
void add_chunk(const GemmArgs& args, uint32_t n, uint32_t row_count, uint32_t k, uint32_t count) {
  const tensor::DType dtype = dtype_of(args.format);
  const size_t skipped = tensor::row_bytes(dtype, k);
  float w[kRows][kChunk];
  for (uint32_t r = 0; r < row_count; ++r) {
    const std::byte* row = row_at(args.format, args.packed, args.x.columns, n + r);
    tensor::dequantize(dtype, row + skipped, count, w[r]);
  }

  for (uint32_t m = 0; m < args.x.rows; ++m) {
    const float* x = args.x.f32 + static_cast<size_t>(m) * args.x.columns + k;
    float* out = args.out + m * args.out_stride + n;
    float result[kRows];
    if (row_count == kRows) {
      dot4(x, w, count, result);
    } else {
      for (uint32_t r = 0; r < row_count; ++r) result[r] = dot(x, w[r], count);
    }
    for (uint32_t r = 0; r < row_count; ++r) out[r] = k == 0 ? result[r] : out[r] + result[r];
  }
}

}  // namespace

void gemm_f32(const GemmArgs& args) {
  CHECK(args.x.f32 != nullptr, "gemm_f32 without f32 activations");
  for (uint32_t n = args.row_begin; n < args.row_end; n += kRows) {
    const uint32_t row_count = args.row_end - n < kRows ? args.row_end - n : kRows;
    for (uint32_t k = 0; k < args.x.columns; k += kChunk) {
      const uint32_t count = args.x.columns - k < kChunk ? args.x.columns - k : kChunk;
      add_chunk(args, n, row_count, k, count);
    }
  }
}

}  // namespace pacer::kernels::scalar
