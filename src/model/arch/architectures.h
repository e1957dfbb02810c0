// What registry.cpp lists: two functions of each file in this folder.
#pragma once

#include "model/registry.h"

namespace pacer::model::arch {

Result<ModelConfig> read_llama_config(const gguf::File& file);
Result<std::unique_ptr<Network>> bind_llama(const ModelConfig& config, WeightLoader& loader);

}  // namespace pacer::model::arch
