// Qwen 3, dense: llama's layers with an RMS norm on each head's queries and keys, rotary positions
// on halves. Source: Yang et al., "Qwen3 Technical Report", 2025.
#include "model/arch/architectures.h"
#include "model/decoder.h"
#include "model/decoder_config.h"

namespace pacer::model::arch {

Result<ModelConfig> read_qwen3_config(const gguf::File& file, uint32_t served_context) {
  ASSIGN_OR_RETURN(ModelConfig config,
                   read_decoder_config(file, {.name = "qwen3"}, served_context));
  config.qk_norm = QkNorm::kHead;
  return config;
}

Result<std::unique_ptr<Network>> bind_qwen3(const ModelConfig& config, WeightLoader& loader) {
  return bind_decoder(config, loader, bind_pre_norm_layer);
}

}  // namespace pacer::model::arch
