// Model architectures: each one file in arch/, its name in arch/architectures.h and in
// registry.cpp.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "gguf/file.h"
#include "model/config.h"
#include "model/forward_batch.h"
#include "model/forward_context.h"
#include "model/weights.h"

namespace pacer::model {

// The weights of one model, bound by its architecture, and what to do with them.
class Network {
 public:
  virtual ~Network() = default;
  // Puts keys and values of all tokens into ctx.kv and logits of batch.logit_rows into logits
  // [rows][vocabulary].
  virtual void forward(ForwardContext& ctx, const ForwardBatch& batch, float* logits) const = 0;
  // Logits of other rows of the batch that ctx.work still holds.
  virtual void more_logits(ForwardContext& ctx, std::span<const uint32_t> rows,
                           float* logits) const = 0;
};

struct Architecture {
  std::string_view name;  // general.architecture
  // Hyper-parameters, every one checked; what the code does not implement is refused by name.
  // served_context: tokens of the longest sequence that will be run; 0: what the model was trained
  // for.
  Result<ModelConfig> (*read_config)(const gguf::File& file, uint32_t served_context);
  // Claims every tensor.
  Result<std::unique_ptr<Network>> (*bind)(const ModelConfig& config, WeightLoader& loader);
};

// By the file's general.architecture; unknown: an Error with the list of what is known.
Result<const Architecture*> find_architecture(const gguf::File& file);

// For read_config: a metadata count in [1, max], or a finite number above 0; named in the error
// when it is not.
Result<uint32_t> read_count(const gguf::File& file, const std::string& key, uint64_t max);
Result<float> read_positive(const gguf::File& file, const std::string& key,
                            std::optional<float> absent);
Result<uint32_t> read_count_or(const gguf::File& file, const std::string& key, uint64_t max,
                               uint32_t absent);

}  // namespace pacer::model
