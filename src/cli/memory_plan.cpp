#include "cli/memory_plan.h"

#include <algorithm>

#include "base/human.h"
#include "runner/model_executor.h"

namespace pacer::cli {

namespace {

constexpr uint64_t kDefaultKvBytes = uint64_t{2} << 30;

// As sum + more, but at the end of the numbers instead of round it.
uint64_t plus(uint64_t sum, uint64_t more) {
  return more > UINT64_MAX - sum ? UINT64_MAX : sum + more;
}

Error does_not_fit(const MemoryNeeds& needs, const MemoryLimit& limit,
                   std::optional<uint64_t> kv_bytes) {
  std::string parts = human_bytes(needs.weights_bytes) + " of weights, " +
                      human_bytes(needs.scratch_bytes) +
                      " for a step (--max-num-batched-tokens, --max-num-seqs)";
  if (needs.bodies_bytes > 0) {
    parts += ", " + human_bytes(needs.bodies_bytes) + " for requests (--max-body-memory)";
  }
  parts += kv_bytes ? ", a KV cache of " + human_bytes(*kv_bytes) + " (--kv-cache-memory)"
                    : ", and a KV cache";
  return error(Code::kExhausted, "this does not fit into memory: {}; {} are available ({})", parts,
               human_bytes(limit.bytes), limit.limited_by);
}

}  // namespace

MemoryLimit memory_limit(const sys::MemoryLimits& machine, std::optional<uint64_t> max_memory) {
  if (max_memory && *max_memory < machine.available_bytes) return {*max_memory, "--max-memory"};
  return {machine.available_bytes, machine.limited_by};
}

uint64_t packed_weights_bytes(const gguf::File& file, const kernels::KernelTable& kernels) {
  uint64_t sum = 0;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    uint64_t rows = 1;
    for (size_t i = 1; i < tensor.shape.size(); ++i) rows *= tensor.shape[i];
    const auto format = kernels::weight_format(tensor.dtype);
    // Vectors become f32; what no kernel takes is refused when it is loaded.
    const bool is_matrix =
        tensor.shape.size() > 1 && format && rows <= UINT32_MAX && tensor.columns() <= UINT32_MAX;
    sum += is_matrix ? kernels.packed_bytes(*format, static_cast<uint32_t>(rows),
                                            static_cast<uint32_t>(tensor.columns()))
                     : rows * tensor.columns() * sizeof(float);
  }
  return sum;
}

uint64_t scratch_bytes(const model::ModelConfig& config, const model::BatchLimits& limits,
                       uint32_t workers) {
  const uint64_t widest =
      std::max({config.d_model, config.d_ff, config.q_values(), config.d_ff_expert});
  // Of each token: residual stream, queries, keys, values, gate and up; the activations of a
  // product in f32, what int8 left of them, and two int8 planes.
  uint64_t values = 2ull * config.d_model + 2ull * config.q_values() + 2ull * config.kv_values() +
                    2ull * std::max(config.d_ff, config.experts_used * config.d_ff_expert) +
                    3 * widest;
  if (config.experts > 0) values += uint64_t{config.experts_used} * (config.d_model + 3 * widest);
  return limits.tokens * values * sizeof(float) +
         runner::executor_scratch_bytes(config.vocabulary, limits, workers);
}

Result<uint64_t> plan_kv_bytes(const MemoryNeeds& needs, const MemoryLimit& limit,
                               std::optional<uint64_t> asked) {
  const uint64_t others = plus(plus(needs.weights_bytes, needs.scratch_bytes), needs.bodies_bytes);
  if (plus(others, asked.value_or(1)) > limit.bytes) return does_not_fit(needs, limit, asked);
  return asked ? *asked : std::min(kDefaultKvBytes, (limit.bytes - others + 1) / 2);
}

}  // namespace pacer::cli
