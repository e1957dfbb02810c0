// Qwen 3, mixture of experts: as qwen3, with a mixture in every layer.
// Source: Yang et al., "Qwen3 Technical Report", 2025.
#include "model/arch/architectures.h"
#include "model/decoder.h"
#include "model/decoder_config.h"

namespace pacer::model::arch {

Result<ModelConfig> read_qwen3moe_config(const gguf::File& file, uint32_t served_context) {
  ASSIGN_OR_RETURN(
      ModelConfig config,
      read_decoder_config(file, {.name = "qwen3moe", .has_experts = true}, served_context));
  config.qk_norm = QkNorm::kHead;
  return config;
}

Result<std::unique_ptr<Network>> bind_qwen3moe(const ModelConfig& config, WeightLoader& loader) {
  return bind_decoder(config, loader, bind_pre_norm_layer);
}

}  // namespace pacer::model::arch
