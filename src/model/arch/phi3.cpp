// Phi 3, 3.5 and 4-mini: llama's layers with q, k, v in one matrix and gate, up in another, rotary
// positions on halves (of a part of the head in Phi-4-mini), LongRoPE for long contexts.
// Source: Abdin et al., "Phi-3 Technical Report", 2024.
#include "model/arch/architectures.h"
#include "model/decoder.h"
#include "model/decoder_config.h"

namespace pacer::model::arch {

namespace {

Status bind_layer(const ModelConfig& config, WeightLoader& loader, const std::string& prefix,
                  DecoderLayer& layer) {
  Attention& attention = layer.attention;
  TRY(bind_norm(config, loader, prefix + "attn_norm.weight", &layer.attention_norm));
  TRY(loader.claim_fused(prefix + "attn_qkv.weight", config.d_model,
                         {{config.q_values(), &attention.q},
                          {config.kv_values(), &attention.k, kKeyValuePrecision},
                          {config.kv_values(), &attention.v, kKeyValuePrecision}}));
  TRY(loader.claim_matrix(prefix + "attn_output.weight", config.d_model, config.q_values(),
                          &attention.out));
  TRY(bind_norm(config, loader, prefix + "ffn_norm.weight", &layer.mlp_norm));
  TRY(loader.claim_fused(prefix + "ffn_up.weight", config.d_model,
                         {{config.d_ff, &layer.mlp.gate}, {config.d_ff, &layer.mlp.up}}));
  return loader.claim_matrix(prefix + "ffn_down.weight", config.d_model, config.d_ff,
                             &layer.mlp.down);
}

}  // namespace

Result<ModelConfig> read_phi3_config(const gguf::File& file, uint32_t served_context) {
  return read_decoder_config(file, {.name = "phi3", .has_window = true}, served_context);
}

Result<std::unique_ptr<Network>> bind_phi3(const ModelConfig& config, WeightLoader& loader) {
  return bind_decoder(config, loader, bind_layer);
}

}  // namespace pacer::model::arch
