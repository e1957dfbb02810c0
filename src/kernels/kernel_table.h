// Everything that a kernel tier provides, as one table of plain functions, and the choice of a
// tier.
//
// Chosen once at start from what CPU and OS allow; PACER_ISA=scalar|avx2|avx512|avx512-novnni
// forces one or refuses to start. Code above takes `const KernelTable&` as an argument and never
// asks which tier it is.
//
// Adding a tier: a folder kernels/<isa>/ with the same file names, a table in it, one line in
// dispatch.cpp; a tier may take entries over from the tier below. kernel_contract_test.cpp then
// runs against it by itself.
#pragma once

#include <span>
#include <string_view>

#include "base/result.h"
#include "kernels/args.h"
#include "tensor/dtype.h"

namespace pacer::kernels {

enum class IsaTier : uint8_t { kScalar, kAvx2, kAvx512NoVnni, kAvx512 };

struct KernelTable {
  IsaTier tier;
  const char* name;  // as PACER_ISA spells it

  // Weights: a tier's own layout, written by pack and read by gemm and unpack_row alone.
  ActivationKind activation_kind[kWeightFormatCount];
  size_t (*packed_bytes)(WeightFormat format, uint32_t rows, uint32_t columns);
  void (*pack)(const PackArgs& args);
  void (*unpack_row)(WeightFormat format, const void* packed, uint32_t rows, uint32_t columns,
                     uint32_t row,
                     float* out);  // exactly the dequantised GGUF values; for embedding look-ups

  // One row of activations to q8 blocks of 32. Ties round to even; an all-zero block has scale 0.
  void (*quantize_q8)(const float* x, uint32_t columns, const Q8Row& out);
  void (*gemm)(const GemmArgs& args);

  // Element-wise and row-wise parts. Vectors need no alignment; out may be x.
  void (*rms_norm)(const float* x, const float* weight, float epsilon, uint32_t n, float* out);
  void (*add)(const float* x, const float* y, uint32_t n, float* out);
  void (*silu_mul)(const float* gate, const float* up, uint32_t n, float* out);  // silu(gate) * up
  // gelu(gate) * up, with the tanh form of gelu: g/2 * (1 + tanh(sqrt(2/pi) (g + 0.044715 g^3))).
  void (*gelu_mul)(const float* gate, const float* up, uint32_t n, float* out);
  void (*soft_cap)(const float* x, float cap, uint32_t n, float* out);  // cap * tanh(x / cap)
  void (*rope)(const RopeArgs& args);

  // Attention over the paged KV cache.
  void (*store_kv)(const StoreKvArgs& args);
  size_t (*attend_scratch_floats)(uint32_t tokens, uint32_t group, uint32_t head_dim);
  void (*attend)(const AttendArgs& args);

  // Logits.
  uint32_t (*arg_max)(const float* x, uint32_t n);   // lowest index among equals; NaN never wins
  float (*log_sum_exp)(const float* x, uint32_t n);  // natural log, computed around the maximum
  // out[i] = exp((x[i] - shift) * scale); returns their sum. For sampling: 1 for the best token, 0
  // far below it.
  double (*exp_weights)(const float* x, uint32_t n, float shift, float scale, float* out);
};

// The tier to use: PACER_ISA if set (an unknown or unsupported name is an Error), else the best
// supported. "avx512" stands for "avx512-novnni" where the CPU has no VNNI.
Result<const KernelTable*> choose_kernels();

// The same for a given name (null or empty: none) and tiers, best first.
Result<const KernelTable*> choose_kernels(const char* name,
                                          std::span<const KernelTable* const> supported);

// Every tier that this machine can run, best first. For tests and `pacer inspect --machine`.
std::span<const KernelTable* const> supported_kernels();

// The format that kernels use for a GGUF type, or an Error that names the type and those that are
// supported.
Result<WeightFormat> weight_format(tensor::DType dtype);

}  // namespace pacer::kernels
