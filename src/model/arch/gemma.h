// What Gemma 2 and 3 have in common.
#pragma once

#include <string>

#include "model/decoder.h"

namespace pacer::model::arch {

Status bind_gemma_layer(const ModelConfig& config, WeightLoader& loader, const std::string& prefix,
                        DecoderLayer& layer);

// GELU gate, embedding scale, and the score scale of the largest model, which has `largest_layers`
// layers and no key that says so.
void set_gemma_scales(const gguf::File& file, uint32_t largest_layers, ModelConfig& config);

}  // namespace pacer::model::arch
