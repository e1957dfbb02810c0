// The quantised gemm with VNNI: one instruction multiplies 64 unsigned codes by 64 signed
// activations and adds fours of products to 16 sums of 32 bits. kernels/avx512/gemm_quantised.h has
// everything else.
//
// Bound: memory at 1-4 rows, then vector instructions: for every 512 products of a Q4 row 8 of
// VNNI and 4 for the scales, over 2 ports.

#include "kernels/avx512/gemm_quantised.h"

#include "kernels/avx512/kernels.h"
#include "kernels/avx512vnni/kernels.h"

namespace pacer::kernels::avx512vnni {

namespace {

using avx512::broadcast_4;
using avx512::kVectors;

struct Vnni {
  enum : uint32_t { kSignedBias = 128 };

  template <class Format, uint32_t kRows>
  PACER_INLINE void dot(const __m512i* w, const int8_t* x, __m512i* integer) {
#pragma GCC unroll 8
    for (uint32_t i = 0; i < kVectors; ++i) {
#pragma GCC unroll 8
      for (uint32_t r = 0; r < kRows; ++r) {
        __m512i* sum = integer + r * Format::kHalves + i * Format::kHalves / kVectors;
        *sum = _mm512_dpbusd_epi32(*sum, w[i], broadcast_4(x + r * kQuantBlock + 4 * i));
      }
    }
  }
};

}  // namespace

void gemm(const GemmArgs& args) {
  if (packed::is_quantised(args.format)) {
    avx512::multiply_quantised<Vnni>(args);
  } else {
    avx512::gemm_float(args);
  }
}

}  // namespace pacer::kernels::avx512vnni
