// What the metadata of nearly every decoder-only architecture has in common, read and checked once.
//
// An architecture calls read_decoder_config(), then changes what it does differently. Keys whose
// meaning is not implemented are refused by name: ignoring one would give wrong numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gguf/file.h"
#include "model/config.h"

namespace pacer::model {

struct DecoderDefaults {
  std::string_view name;  // general.architecture, the prefix of its keys
  kernels::RopePairing pairing = kernels::RopePairing::kHalves;
  float rope_base = 10000.0f;
  bool has_window = false;          // <name>.attention.sliding_window means something here
  bool has_window_pattern = false;  // ..., and <name>.attention.sliding_window_pattern too
  bool has_experts = false;         // a file may be a mixture of experts
};

// Sizes, norms, rotary positions (one set for all layers), experts, and a window in every layer
// where there is one. served_context: see Architecture::read_config.
Result<ModelConfig> read_decoder_config(const gguf::File& file, const DecoderDefaults& defaults,
                                        uint32_t served_context);

// Keeps the window only in layers for which is_windowed(index) is true.
template <class F>
void keep_window(ModelConfig& config, F is_windowed) {
  for (uint32_t i = 0; i < config.layers; ++i) {
    if (!is_windowed(i)) config.layer_config[i].window = 0;
  }
}

// A soft cap: absent is none, else a number above 0.
Result<float> read_soft_cap(const gguf::File& file, const std::string& key, float absent = 0.0f);

}  // namespace pacer::model
