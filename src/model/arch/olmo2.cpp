// OLMo 2: no norm before a block but one after it, RMS norms over all queries and all keys of a
// token. Source: OLMo Team, "2 OLMo 2 Furious", 2024.
#include "model/arch/architectures.h"
#include "model/decoder.h"
#include "model/decoder_config.h"

namespace pacer::model::arch {

namespace {

Status bind_layer(const ModelConfig& config, WeightLoader& loader, const std::string& prefix,
                  DecoderLayer& layer) {
  TRY(bind_attention(config, loader, prefix, layer.attention));
  TRY(bind_norm(config, loader, prefix + "post_attention_norm.weight", &layer.attention_post_norm));
  TRY(bind_mlp(config, loader, prefix, layer));
  return bind_norm(config, loader, prefix + "post_ffw_norm.weight", &layer.mlp_post_norm);
}

}  // namespace

Result<ModelConfig> read_olmo2_config(const gguf::File& file, uint32_t served_context) {
  ASSIGN_OR_RETURN(ModelConfig config,
                   read_decoder_config(file, {.name = "olmo2"}, served_context));
  config.qk_norm = QkNorm::kProjection;
  return config;
}

Result<std::unique_ptr<Network>> bind_olmo2(const ModelConfig& config, WeightLoader& loader) {
  return bind_decoder(config, loader, bind_layer);
}

}  // namespace pacer::model::arch
