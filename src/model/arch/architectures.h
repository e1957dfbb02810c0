// What registry.cpp lists: two functions of each file in this folder.
#pragma once

#include "model/registry.h"

namespace pacer::model::arch {

#define PACER_ARCHITECTURE(name)                                                             \
  Result<ModelConfig> read_##name##_config(const gguf::File& file, uint32_t served_context); \
  Result<std::unique_ptr<Network>> bind_##name(const ModelConfig& config, WeightLoader& loader)

PACER_ARCHITECTURE(llama);
PACER_ARCHITECTURE(qwen2);
PACER_ARCHITECTURE(qwen3);
PACER_ARCHITECTURE(qwen3moe);
PACER_ARCHITECTURE(gemma2);
PACER_ARCHITECTURE(gemma3);
PACER_ARCHITECTURE(phi3);
PACER_ARCHITECTURE(olmo2);

#undef PACER_ARCHITECTURE

}  // namespace pacer::model::arch
