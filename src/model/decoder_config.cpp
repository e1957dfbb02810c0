#include "model/decoder_config.h"

#include <cmath>
#include <optional>

#include "model/registry.h"
#include "model/rope.h"

namespace pacer::model {

namespace {

constexpr uint64_t kLayersMax = 1024;
constexpr uint64_t kWidthMax = 1 << 17;
constexpr uint64_t kVocabularyMax = 1 << 22;
constexpr uint64_t kContextMax = 1 << 24;
constexpr uint64_t kExpertsMax = 1024;

// Keys that some relatives of these architectures use, and the one value that means "not used".
struct Neutral {
  const char* key;
  double value;
};
constexpr Neutral kNeutral[] = {
    {"attention.max_alibi_bias", 0},
    {"attention.clamp_kqv", 0},
    {"residual_scale", 1},
    {"embedding_scale", 1},
    {"logit_scale", 1},
    {"expert_shared_count", 0},
    {"expert_weights_scale", 1},
    {"expert_gating_func", 1},
    {"expert_group_count", 1},
    {"leading_dense_block_count", 0},
    {"interleave_moe_layer_step", 1},
    {"nextn_predict_layers", 0},
    {"rope.scaling.yarn_attn_factor", 1},
    {"rope.scaling.yarn_ext_factor", 1},
};

Result<std::optional<double>> find_number(const gguf::File& file, const std::string& key) {
  if (const auto whole = file.find_uint(key); whole && *whole)
    return std::optional<double>(static_cast<double>(**whole));
  return file.find_float(key);
}

Status refuse_unsupported(const gguf::File& file, const DecoderDefaults& defaults) {
  const std::string prefix = std::string(defaults.name) + ".";
  for (const Neutral& neutral : kNeutral) {
    ASSIGN_OR_RETURN(const auto value, find_number(file, prefix + neutral.key));
    // 0 is "not set" in every one of them.
    if (value && *value != neutral.value && *value != 0) {
      return error(Code::kUnsupported, "{}: {}{} is {}; only {} is supported", file.path(), prefix,
                   neutral.key, *value, neutral.value);
    }
  }
  ASSIGN_OR_RETURN(const auto causal, file.find_bool(prefix + "attention.causal"));
  if (!causal.value_or(true)) {
    return error(Code::kUnsupported,
                 "{}: {}attention.causal is false; only causal attention is supported", file.path(),
                 prefix);
  }
  const std::string pattern = prefix + "attention.sliding_window_pattern";
  if (file.metadata().contains(pattern) && !defaults.has_window_pattern) {
    return error(Code::kUnsupported, "{}: {} is not supported for this architecture", file.path(),
                 pattern);
  }
  return Ok{};
}

Status read_sizes(const gguf::File& file, const std::string& prefix, ModelConfig& config) {
  ASSIGN_OR_RETURN(config.layers, read_count(file, prefix + "block_count", kLayersMax));
  ASSIGN_OR_RETURN(config.d_model, read_count(file, prefix + "embedding_length", kWidthMax));
  ASSIGN_OR_RETURN(config.heads, read_count(file, prefix + "attention.head_count", kWidthMax));
  ASSIGN_OR_RETURN(config.kv_heads, read_count_or(file, prefix + "attention.head_count_kv",
                                                  kWidthMax, config.heads));
  ASSIGN_OR_RETURN(config.context_length, read_count(file, prefix + "context_length", kContextMax));
  if (config.heads % config.kv_heads != 0) {
    return error(Code::kBadFile, "{}: {} attention heads do not share {} key-value heads evenly",
                 file.path(), config.heads, config.kv_heads);
  }
  ASSIGN_OR_RETURN(config.head_dim, read_count_or(file, prefix + "attention.key_length", kWidthMax,
                                                  config.d_model / config.heads));
  ASSIGN_OR_RETURN(const uint32_t value_dim, read_count_or(file, prefix + "attention.value_length",
                                                           kWidthMax, config.head_dim));
  // 8 and 256: what the attention kernels take (kernels/args.h).
  if (config.head_dim % 8 != 0 || config.head_dim == 0 || config.head_dim > 256 ||
      value_dim != config.head_dim) {
    return error(Code::kUnsupported,
                 "{}: attention heads of {} key and {} value dimensions; supported are equal "
                 "multiples of 8 up to 256",
                 file.path(), config.head_dim, value_dim);
  }
  ASSIGN_OR_RETURN(config.rms_epsilon,
                   read_positive(file, prefix + "attention.layer_norm_rms_epsilon", std::nullopt));
  return Ok{};
}

Status read_vocabulary_size(const gguf::File& file, ModelConfig& config) {
  const gguf::TensorInfo* embedding = file.find_tensor("token_embd.weight");
  if (embedding == nullptr)
    return error(Code::kBadFile, "{}: tensor 'token_embd.weight' is missing", file.path());
  if (embedding->rows() > kVocabularyMax) {
    return error(Code::kBadFile, "{}: a vocabulary of {} tokens, at most {} are supported",
                 file.path(), embedding->rows(), kVocabularyMax);
  }
  config.vocabulary = static_cast<uint32_t>(embedding->rows());
  return Ok{};
}

Status read_mlp(const gguf::File& file, const DecoderDefaults& defaults, ModelConfig& config) {
  const std::string prefix = std::string(defaults.name) + ".";
  ASSIGN_OR_RETURN(const auto experts, file.find_uint(prefix + "expert_count"));
  if (experts.value_or(0) == 0) {
    ASSIGN_OR_RETURN(config.d_ff, read_count(file, prefix + "feed_forward_length", kWidthMax));
    return Ok{};
  }
  if (!defaults.has_experts) {
    return error(Code::kUnsupported,
                 "{}: {}expert_count is {}; mixtures of experts of this architecture are not "
                 "supported",
                 file.path(), prefix, *experts);
  }
  ASSIGN_OR_RETURN(config.experts, read_count(file, prefix + "expert_count", kExpertsMax));
  ASSIGN_OR_RETURN(config.experts_used,
                   read_count(file, prefix + "expert_used_count", config.experts));
  // Mixtral writes the width of an expert as that of an MLP.
  if (const std::string key = prefix + "expert_feed_forward_length";
      file.metadata().contains(key)) {
    ASSIGN_OR_RETURN(config.d_ff_expert, read_count(file, key, kWidthMax));
  } else {
    ASSIGN_OR_RETURN(config.d_ff_expert,
                     read_count(file, prefix + "feed_forward_length", kWidthMax));
  }
  return Ok{};
}

Status read_window(const gguf::File& file, const DecoderDefaults& defaults, ModelConfig& config) {
  const std::string key = std::string(defaults.name) + ".attention.sliding_window";
  ASSIGN_OR_RETURN(const auto window, file.find_uint(key));
  if (window.value_or(0) == 0) return Ok{};
  if (!defaults.has_window) {
    return error(Code::kUnsupported, "{}: {} {} is not supported for this architecture",
                 file.path(), key, *window);
  }
  ASSIGN_OR_RETURN(const uint32_t tokens, read_count(file, key, kContextMax));
  for (LayerConfig& layer : config.layer_config) layer.window = tokens;
  return Ok{};
}

}  // namespace

Result<float> read_soft_cap(const gguf::File& file, const std::string& key, float absent) {
  if (!file.metadata().contains(key)) return absent;
  return read_positive(file, key, std::nullopt);
}

Result<ModelConfig> read_decoder_config(const gguf::File& file, const DecoderDefaults& defaults,
                                        uint32_t served_context) {
  const std::string prefix = std::string(defaults.name) + ".";
  TRY(refuse_unsupported(file, defaults));
  ModelConfig config;
  config.architecture = defaults.name;
  TRY(read_sizes(file, prefix, config));
  TRY(read_vocabulary_size(file, config));
  TRY(read_mlp(file, defaults, config));
  config.layer_config.resize(config.layers);
  TRY(read_window(file, defaults, config));
  ASSIGN_OR_RETURN(config.attention_scale,
                   read_positive(file, prefix + "attention.scale",
                                 1.0f / std::sqrt(static_cast<float>(config.head_dim))));
  ASSIGN_OR_RETURN(RopeConfig rope,
                   read_rope(file, {.prefix = prefix,
                                    .head_dim = config.head_dim,
                                    .pairing = defaults.pairing,
                                    .base_default = defaults.rope_base,
                                    .trained_context = config.context_length,
                                    .served_context = served_context > 0 ? served_context
                                                                         : config.context_length}));
  config.ropes.push_back(std::move(rope));
  return config;
}

}  // namespace pacer::model
