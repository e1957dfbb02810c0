// The hyper-parameters of a model, as read from a GGUF by its architecture.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/args.h"

namespace pacer::model {

// Rotary positions: pair i of a head turns by position * frequencies[i] radians, and is multiplied
// by `magnitude` (rope.h).
struct RopeConfig {
  uint32_t dims = 0;  // rotated values per head
  kernels::RopePairing pairing = kernels::RopePairing::kAdjacent;
  std::vector<float> frequencies;  // [dims / 2]
  float magnitude = 1.0f;
  std::vector<std::string> tensors;  // that the frequencies came from
};

// What may differ from one layer to the next.
struct LayerConfig {
  uint32_t rope = 0;    // index into ModelConfig::ropes
  uint32_t window = 0;  // tokens that attention sees, the newest included; 0: all
};

enum class GateActivation : uint8_t { kSilu, kGelu };  // gelu: the tanh form
enum class QkNorm : uint8_t {
  kNone,
  kHead,        // RMS norm of each head's queries and keys
  kProjection,  // of all heads of a token together
};

struct ModelConfig {
  std::string architecture;
  uint32_t layers = 0;
  uint32_t d_model = 0;
  uint32_t d_ff = 0;  // of a dense MLP; 0 where every layer is a mixture of experts
  uint32_t heads = 0;
  uint32_t kv_heads = 0;  // heads / kv_heads query heads share one (grouped-query attention)
  uint32_t head_dim = 0;
  uint32_t vocabulary = 0;
  uint32_t context_length = 0;  // tokens that the model was trained for
  float rms_epsilon = 0;

  std::vector<RopeConfig> ropes;          // at least one
  std::vector<LayerConfig> layer_config;  // [layers]
  QkNorm qk_norm = QkNorm::kNone;
  float attention_scale = 0;     // of a score, before the soft cap
  float attention_soft_cap = 0;  // 0: none
  GateActivation gate = GateActivation::kSilu;

  uint32_t experts = 0;       // 0: a dense MLP
  uint32_t experts_used = 0;  // by each token
  uint32_t d_ff_expert = 0;

  float embedding_scale = 1;
  float logit_soft_cap = 0;  // 0: none

  uint32_t q_values() const { return heads * head_dim; }
  uint32_t kv_values() const { return kv_heads * head_dim; }
  uint32_t group() const { return heads / kv_heads; }
};

}  // namespace pacer::model
