// out[m][n] = dot(x row m, weight row n) for quantised weights and int8 activations: the formats
// with f16 scales for every 32 columns here, those with super-blocks in gemm_super.cpp. Contract:
// scalar/gemm_q8.h. The loops: gemm_tile.h.
//
// Bound: memory at 1-4 rows, then vector instructions: some 23 for every 256 Q4 products (8
// maddubs, 7 additions, 5 for the scales, the rest widening), over 3 ports. Measured on one core of
// a Sapphire Rapids guest that reads 13.5-15.5 GB/s: Q4_1 at 1 row 14.5-15.5 GB/s from memory (all
// of it) and 27 GB/s from L3; at 6 rows and more 0.20 TOP/s (28 products a cycle, of 38 without
// widening); Q8_0 15.4 GB/s and 0.12 TOP/s.

#include "kernels/avx2/block_dot.h"
#include "kernels/avx2/gemm_tile.h"
#include "kernels/avx2/kernels.h"

namespace pacer::kernels::avx2 {

void gemm_quantised(const GemmArgs& args) {
  switch (args.format) {
    case WeightFormat::kQ4_0:
      return multiply<Q4_0>(args);
    case WeightFormat::kQ4_1:
      return multiply<Q4_1>(args);
    case WeightFormat::kQ5_0:
      return multiply<Q5_0>(args);
    case WeightFormat::kQ5_1:
      return multiply<Q5_1>(args);
    case WeightFormat::kQ8_0:
      return multiply<Q8_0>(args);
    case WeightFormat::kIQ4NL:
      return multiply<IQ4_NL>(args);
    default:
      return gemm_super(args);
  }
}

}  // namespace pacer::kernels::avx2
