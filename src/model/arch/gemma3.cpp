// Gemma 3, text: Gemma 2's layers with norms on queries and keys instead of soft caps; five layers
// with a sliding window and rotary positions of their own base, then one that sees everything.
// Source: Gemma Team, "Gemma 3 Technical Report", 2025.
#include "model/arch/architectures.h"
#include "model/arch/gemma.h"
#include "model/decoder_config.h"
#include "model/rope.h"

namespace pacer::model::arch {

namespace {

constexpr uint32_t kLargestLayers = 62;  // of the 27B model, which scales scores differently
constexpr uint32_t kPatternDefault = 6;  // every 6th layer has no window
constexpr float kRopeBase = 1e6f;
constexpr float kLocalRopeBase = 10000.0f;

// Layers with a window: all but every 6th, or what the file lists.
Status set_pattern(const gguf::File& file, ModelConfig& config) {
  const std::string key = "gemma3.attention.sliding_window_pattern";
  const auto entry = file.metadata().find(key);
  if (entry != file.metadata().end()) {
    if (const auto* list = std::get_if<std::vector<bool>>(&entry->second)) {
      if (list->size() != config.layers) {
        return error(Code::kBadFile, "{}: {} has {} entries for {} layers", file.path(), key,
                     list->size(), config.layers);
      }
      keep_window(config, [&](uint32_t layer) { return (*list)[layer]; });
      return Ok{};
    }
  }
  ASSIGN_OR_RETURN(const uint32_t pattern, read_count_or(file, key, 1024, kPatternDefault));
  keep_window(config, [&](uint32_t layer) { return (layer + 1) % pattern != 0; });
  return Ok{};
}

}  // namespace

Result<ModelConfig> read_gemma3_config(const gguf::File& file, uint32_t served_context) {
  ASSIGN_OR_RETURN(ModelConfig config, read_decoder_config(file,
                                                           {.name = "gemma3",
                                                            .rope_base = kRopeBase,
                                                            .has_window = true,
                                                            .has_window_pattern = true},
                                                           served_context));
  set_gemma_scales(file, kLargestLayers, config);
  config.qk_norm = QkNorm::kHead;
  ASSIGN_OR_RETURN(config.logit_soft_cap, read_soft_cap(file, "gemma3.final_logit_softcapping"));
  TRY(set_pattern(file, config));

  ASSIGN_OR_RETURN(const float local,
                   read_positive(file, "gemma3.rope.freq_base_swa", kLocalRopeBase));
  const RopeConfig& global = config.ropes[0];
  config.ropes.push_back(plain_rope(global.dims, global.pairing, local));
  for (LayerConfig& layer : config.layer_config) layer.rope = layer.window > 0 ? 1 : 0;
  return config;
}

Result<std::unique_ptr<Network>> bind_gemma3(const ModelConfig& config, WeightLoader& loader) {
  return bind_decoder(config, loader, bind_gemma_layer);
}

}  // namespace pacer::model::arch
