// The hyper-parameters of a model, as read from a GGUF by its architecture.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/args.h"

namespace pacer::model {

struct RopeConfig {
  uint32_t dims = 0;  // rotated values per head
  float base = 10000.0f;
  kernels::RopePairing pairing = kernels::RopePairing::kAdjacent;
};

struct ModelConfig {
  std::string architecture;
  uint32_t layers = 0;
  uint32_t d_model = 0;
  uint32_t d_ff = 0;
  uint32_t heads = 0;
  uint32_t kv_heads = 0;  // heads / kv_heads query heads share one (grouped-query attention)
  uint32_t head_dim = 0;
  uint32_t vocabulary = 0;
  uint32_t context_length = 0;  // tokens that the model was trained for
  float rms_epsilon = 0;
  RopeConfig rope;

  uint32_t q_values() const { return heads * head_dim; }
  uint32_t kv_values() const { return kv_heads * head_dim; }
  uint32_t group() const { return heads / kv_heads; }
};

}  // namespace pacer::model
