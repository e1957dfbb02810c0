// The AVX-512 tier: F, BW, DQ and VL on top of AVX2. Quantised formats multiply in int8
// (activation_kind kQ8), the others in f32. What is not here is taken over from AVX2 (table.h).
#pragma once

#include "kernels/args.h"

namespace pacer::kernels::avx512 {

void gemm(const GemmArgs& args);        // without VNNI
void gemm_float(const GemmArgs& args);  // F32, F16, BF16

void silu_mul(const float* gate, const float* up, uint32_t n, float* out);
void gelu_mul(const float* gate, const float* up, uint32_t n, float* out);
void soft_cap(const float* x, float cap, uint32_t n, float* out);

size_t attend_scratch_floats(uint32_t tokens, uint32_t group, uint32_t head_dim);
void attend(const AttendArgs& args);

}  // namespace pacer::kernels::avx512
