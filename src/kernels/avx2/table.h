// The AVX2 tier's table. Included by dispatch.cpp alone, so that no std header is compiled with
// AVX2 flags.
#pragma once

#include "kernels/avx2/kernels.h"
#include "kernels/kernel_table.h"
#include "kernels/packed_rows.h"

namespace pacer::kernels::avx2 {

constexpr KernelTable kTable = {
    .tier = IsaTier::kAvx2,
    .name = "avx2",
    // F32, F16, BF16; then the quantised ones
    .activation_kind = {ActivationKind::kF32, ActivationKind::kF32, ActivationKind::kF32,
                        ActivationKind::kQ8, ActivationKind::kQ8, ActivationKind::kQ8,
                        ActivationKind::kQ8, ActivationKind::kQ8, ActivationKind::kQ8,
                        ActivationKind::kQ8, ActivationKind::kQ8, ActivationKind::kQ8,
                        ActivationKind::kQ8, ActivationKind::kQ8, ActivationKind::kQ8},
    .packed_bytes = packed::packed_bytes,
    .pack = packed::pack,
    .unpack_row = packed::unpack_row,
    .quantize_q8 = quantize_q8,
    .gemm = gemm,
    .rms_norm = rms_norm,
    .add = add,
    .silu_mul = silu_mul,
    .gelu_mul = gelu_mul,
    .soft_cap = soft_cap,
    .rope = rope,
    .store_kv = store_kv,
    .attend_scratch_floats = attend_scratch_floats,
    .attend = attend,
    .arg_max = arg_max,
    .log_sum_exp = log_sum_exp,
    .exp_weights = exp_weights,
};

}  // namespace pacer::kernels::avx2
