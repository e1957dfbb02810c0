// The quantised gemm with VNNI: one instruction multiplies 64 unsigned codes by 64 signed
// activations and adds fours of products to 16 sums of 32 bits. kernels/avx512/gemm_quantised.h has
// everything else.
//
// Bound: memory at 1-4 rows, then vector instructions: for every 512 products of a Q4_1 row 8 of
// VNNI and 4 for scale and minimum, over 2 ports, so that 0.67 of the VNNI peak is the most.
// Measured on one core of a Sapphire Rapids guest, against the ceiling in the same run: Q4_1 at 1
// row 0.88 of plain reads from memory, and 65 GB/s from L2; at 16 rows Q4_1 0.57 of the VNNI peak
// (0.47 TOP/s), Q8_0 0.62, Q6_K 0.49. Against AVX2: Q4_1 1.5 x at 1 row from L2, 2.0-2.4 x from 4
// rows on.

#include "kernels/avx512/gemm_quantised.h"

#include "kernels/avx512/kernels.h"
#include "kernels/avx512vnni/kernels.h"

namespace pacer::kernels::avx512vnni {

namespace {

using avx512::kVectors;

typedef int32_t FourValues __attribute__((may_alias, aligned(1)));

// sum += four products of each lane, the same four activations for all lanes. In assembler, as gcc
// 12 never makes the broadcast a part of this instruction, but an instruction of its own (measured:
// 12 % slower).
PACER_INLINE void add_products(__m512i* sum, __m512i w, const int8_t* x_4) {
  asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(*sum) : "v"(w), "m"(*(const FourValues*)x_4));
}

struct Vnni {
  enum : uint32_t { kSignedBias = 128 };

  template <class Format, uint32_t kRows>
  PACER_INLINE void dot(const __m512i* w, const int8_t* x, __m512i* integer) {
#pragma GCC unroll 8
    for (uint32_t i = 0; i < kVectors; ++i) {
#pragma GCC unroll 8
      for (uint32_t r = 0; r < kRows; ++r) {
        __m512i* sum = integer + r * Format::kHalves + i * Format::kHalves / kVectors;
        add_products(sum, w[i], x + r * kQuantBlock + 4 * i);
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
