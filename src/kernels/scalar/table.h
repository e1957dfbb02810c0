// The scalar tier's table. Included by dispatch.cpp alone.
#pragma once

#include "kernels/kernel_table.h"
#include "kernels/scalar/kernels.h"

namespace pacer::kernels::scalar {

constexpr KernelTable kTable = {
    .tier = IsaTier::kScalar,
    .name = "scalar",
    .activation_kind = {},  // f32 for every format
    .packed_bytes = packed_bytes,
    .pack = pack,
    .unpack_row = unpack_row,
    .quantize_q8 = quantize_q8,
    .gemm = gemm_f32,
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

}  // namespace pacer::kernels::scalar
