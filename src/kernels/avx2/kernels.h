// The AVX2 tier: AVX2 + FMA + F16C. Quantised formats multiply in int8 (activation_kind kQ8), the
// others in f32.
#pragma once

#include "kernels/args.h"

namespace pacer::kernels::avx2 {

void quantize_q8(const float* x, uint32_t columns, const Q8Row& out);
void gemm(const GemmArgs& args);
void gemm_quantised(const GemmArgs& args);  // formats with codes
void gemm_super(const GemmArgs& args);      // those of them with super-blocks
void gemm_float(const GemmArgs& args);      // F32, F16, BF16

void rms_norm(const float* x, const float* weight, float epsilon, uint32_t n, float* out);
void add(const float* x, const float* y, uint32_t n, float* out);
void silu_mul(const float* gate, const float* up, uint32_t n, float* out);
void gelu_mul(const float* gate, const float* up, uint32_t n, float* out);
void soft_cap(const float* x, float cap, uint32_t n, float* out);
void rope(const RopeArgs& args);

void store_kv(const StoreKvArgs& args);
size_t attend_scratch_floats(uint32_t tokens, uint32_t group, uint32_t head_dim);
void attend(const AttendArgs& args);

uint32_t arg_max(const float* x, uint32_t n);
float log_sum_exp(const float* x, uint32_t n);
double exp_weights(const float* x, uint32_t n, float shift, float scale, float* out);

}  // namespace pacer::kernels::avx2
