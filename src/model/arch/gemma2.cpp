// Gemma 2: norms before and after each block, GELU-gated MLP, every other layer with a sliding
// window, soft caps on attention scores and logits, embeddings scaled by sqrt(d_model).
// GGUF stores the norm weights with their 1 added. Source: Gemma Team, "Gemma 2", 2024.
#include <cmath>

#include "model/arch/architectures.h"
#include "model/arch/gemma.h"
#include "model/decoder_config.h"

namespace pacer::model::arch {

namespace {

constexpr uint32_t kLargestLayers = 46;    // of the 27B model, which scales scores differently
constexpr uint32_t kWindowDefault = 4096;  // for files that do not say

}  // namespace

Status bind_gemma_layer(const ModelConfig& config, WeightLoader& loader, const std::string& prefix,
                        DecoderLayer& layer) {
  TRY(bind_norm(config, loader, prefix + "attn_norm.weight", &layer.attention_norm));
  TRY(bind_attention(config, loader, prefix, layer.attention));
  TRY(bind_norm(config, loader, prefix + "post_attention_norm.weight", &layer.attention_post_norm));
  TRY(bind_norm(config, loader, prefix + "ffn_norm.weight", &layer.mlp_norm));
  TRY(bind_mlp(config, loader, prefix, layer));
  return bind_norm(config, loader, prefix + "post_ffw_norm.weight", &layer.mlp_post_norm);
}

void set_gemma_scales(const gguf::File& file, uint32_t largest_layers, ModelConfig& config) {
  config.gate = GateActivation::kGelu;
  config.embedding_scale = std::sqrt(static_cast<float>(config.d_model));
  if (config.layers == largest_layers &&
      !file.metadata().contains(config.architecture + ".attention.scale")) {
    config.attention_scale = 1.0f / std::sqrt(static_cast<float>(config.d_model / config.heads));
  }
}

Result<ModelConfig> read_gemma2_config(const gguf::File& file, uint32_t served_context) {
  ASSIGN_OR_RETURN(
      ModelConfig config,
      read_decoder_config(file, {.name = "gemma2", .has_window = true}, served_context));
  set_gemma_scales(file, kLargestLayers, config);
  ASSIGN_OR_RETURN(config.attention_soft_cap,
                   read_soft_cap(file, "gemma2.attn_logit_softcapping", 50.0f));
  ASSIGN_OR_RETURN(config.logit_soft_cap,
                   read_soft_cap(file, "gemma2.final_logit_softcapping", 30.0f));
  for (LayerConfig& layer : config.layer_config) {
    if (layer.window == 0) layer.window = kWindowDefault;
  }
  keep_window(config, [](uint32_t layer) { return layer % 2 == 0; });
  return config;
}

Result<std::unique_ptr<Network>> bind_gemma2(const ModelConfig& config, WeightLoader& loader) {
  return bind_decoder(config, loader, bind_gemma_layer);
}

}  // namespace pacer::model::arch
