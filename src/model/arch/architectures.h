// The architectures that there are: each is a file of this folder with the two functions below, and
// a line here.
#pragma once

#include "model/registry.h"

namespace pacer::model::arch {

// By the name that general.architecture has.
#define PACER_ARCHITECTURES(ENTRY) \
  ENTRY(llama)                     \
  ENTRY(qwen2)                     \
  ENTRY(qwen3)                     \
  ENTRY(qwen3moe)                  \
  ENTRY(gemma2)                    \
  ENTRY(gemma3)                    \
  ENTRY(phi3)                      \
  ENTRY(olmo2)

#define PACER_DECLARE(name)                                                                  \
  Result<ModelConfig> read_##name##_config(const gguf::File& file, uint32_t served_context); \
  Result<std::unique_ptr<Network>> bind_##name(const ModelConfig& config, WeightLoader& loader);

PACER_ARCHITECTURES(PACER_DECLARE)

#undef PACER_DECLARE

}  // namespace pacer::model::arch
