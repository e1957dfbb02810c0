// The AVX-512 tier: F, BW, DQ and VL on top of AVX2. Quantised formats multiply in int8
// (activation_kind kQ8), the others in f32. What is not here is taken over from AVX2 (table.h).
#pragma once

#include "kernels/args.h"

namespace pacer::kernels::avx512 {

void gemm(const GemmArgs& args);        // without VNNI
void gemm_float(const GemmArgs& args);  // F32, F16, BF16

}  // namespace pacer::kernels::avx512
