// What an integer tier computes: int8 activations in blocks of 32 times quantised weights, exactly
// in integers within a block, in f32 across blocks.
//
// The reference of kernel_contract_test for every tier whose activation_kind is kQ8; no table
// points at it. Reads the scalar layout (GGUF rows). Formats: Q4_0, Q4_1, Q8_0.
//
//   out[m][n] = sum over blocks b, in order, of
//                 weight_scale[n][b] * x_scale[m][b] * (sum of q[n][b][i] * x[m][b][i])  -- the
//                 exact integer part
//               + weight_offset[n][b] * x_sum[m][b]                                      -- Q4_0:
//               -8 * scale, Q4_1: min
#pragma once

#include "kernels/args.h"

namespace pacer::kernels::scalar {

void gemm_q8(const GemmArgs& args);

}  // namespace pacer::kernels::scalar
