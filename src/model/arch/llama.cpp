// Llama 1 to 3 and what has its shape (Mistral, Mixtral, SmolLM, ...): the worked example of an
// architecture.
//
// Pre-norm transformer with RMS norm, rotary positions on adjacent pairs (GGUF stores q and k so),
// grouped-query attention and a SiLU-gated MLP, or a mixture of such. Sources: Touvron et al.,
// "LLaMA", 2023; Jiang et al., "Mixtral of Experts", 2024; the `llama.*` keys of the GGUF
// specification. docs/howto/architecture.md explains this file step by step.
#include "model/arch/architectures.h"
#include "model/decoder.h"
#include "model/decoder_config.h"

namespace pacer::model::arch {

Result<ModelConfig> read_llama_config(const gguf::File& file, uint32_t served_context) {
  return read_decoder_config(file,
                             {.name = "llama",
                              .pairing = kernels::RopePairing::kAdjacent,
                              .has_window = true,
                              .has_experts = true},
                             served_context);
}

Result<std::unique_ptr<Network>> bind_llama(const ModelConfig& config, WeightLoader& loader) {
  return bind_decoder(config, loader, bind_pre_norm_layer);
}

}  // namespace pacer::model::arch
