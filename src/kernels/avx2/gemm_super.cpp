// The same as gemm_quantised.cpp for the formats with super-blocks of 256 columns.
//
// Bound: memory at 1-4 rows, then vector instructions, as there. On top of Q4_1's come the widening
// of upper bits (Q5_K, Q6_K, Q3_K) and a second offset (Q6_K, Q3_K, Q2_K). Measured beside Q4_1 in
// one process, interleaved, on a busy core: bytes/s at 1 row 0.95-1.06 x (Q4_K, Q5_K, Q6_K),
// 0.85-0.93 x (Q2_K, Q3_K); products/s at 12 rows 1.0-1.1 x (Q2_K, Q4_K, Q5_K), 0.9 x (Q3_K),
// 0.7 x (Q6_K, IQ4_XS).

#include "kernels/avx2/gemm_tile.h"
#include "kernels/avx2/kernels.h"
#include "kernels/avx2/super_dot.h"

namespace pacer::kernels::avx2 {

void gemm_super(const GemmArgs& args) {
  switch (args.format) {
    case WeightFormat::kQ2K:
      return multiply<Q2_K>(args);
    case WeightFormat::kQ3K:
      return multiply<Q3_K>(args);
    case WeightFormat::kQ4K:
      return multiply<Q4_K>(args);
    case WeightFormat::kQ5K:
      return multiply<Q5_K>(args);
    case WeightFormat::kQ6K:
      return multiply<Q6_K>(args);
    case WeightFormat::kIQ4XS:
      return multiply<IQ4_XS>(args);
    default:
      __builtin_trap();  // gemm() sends the other formats elsewhere
  }
}

}  // namespace pacer::kernels::avx2
