// Qwen 2 and 2.5: llama's layers with biases on q, k and v, rotary positions on halves.
// Source: Yang et al., "Qwen2 Technical Report", 2024.
#include "model/arch/architectures.h"
#include "model/decoder.h"
#include "model/decoder_config.h"

namespace pacer::model::arch {

Result<ModelConfig> read_qwen2_config(const gguf::File& file, uint32_t served_context) {
  return read_decoder_config(file, {.name = "qwen2"}, served_context);
}

Result<std::unique_ptr<Network>> bind_qwen2(const ModelConfig& config, WeightLoader& loader) {
  return bind_decoder(config, loader, bind_pre_norm_layer);
}

}  // namespace pacer::model::arch
