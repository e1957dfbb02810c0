// What an integer tier computes: int8 activations in blocks of 32 times quantised weights, exactly
// in integers within a block, in f32 across blocks.
//
// The reference of kernel_contract_test for every tier whose activation_kind is kQ8; no table
// points at it. Reads the scalar layout (GGUF rows). Formats: all that have codes.
//
//   out[m][n] = sum over blocks b of 32 columns, in order, of
//       d[n][b] * x_scale[m][b] * (sum over halves h: s[n][b][h] * (sum of q[n][b][i] *
//       x[m][b][i]))
//     + sum over halves h: offset[n][b][h] * x_half_sum[m][b][h]
//
// The big bracket is an integer, exact in int32 (it stays below 2^25 in every format). d is the f16
// of the block or super-block, s the integer scale of 16 columns (1 in formats without), q the code
// as it is stored: unsigned, but signed for Q8_0, and the value from the table for IQ4_NL and
// IQ4_XS. What a code is centred on, and minima, are in the offset:
//
//   Q4_0    -8 d        Q5_0   -16 d       Q3_K        -4 d s[h]       Q8_0, IQ4_NL, IQ4_XS   none
//   Q4_1, Q5_1   m      Q6_K   -32 d s[h]  Q4_K, Q5_K  -dmin min       Q2_K   -dmin min[h]
//
// Where both halves have the same offset it is used once, with x_sum[m][b] of the whole block. A
// tier may round d * s before it multiplies the integer dots of the halves: the same within a few
// roundings, and exact where every step is.
#pragma once

#include "kernels/args.h"

namespace pacer::kernels::scalar {

void gemm_q8(const GemmArgs& args);

}  // namespace pacer::kernels::scalar
