// How well a model predicts a text: the loss of windows of tokens, for perplexity.
//
// Called by `pacer eval` and the golden tests. Has a KV cache of its own, for one window.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/token.h"
#include "gguf/file.h"
#include "kernels/kernel_table.h"
#include "kv/storage.h"
#include "model/model.h"
#include "sys/memory.h"
#include "sys/thread_pool.h"

namespace pacer::model {

// Negative log-likelihoods in nats, added up over scored tokens.
struct Loss {
  double sum = 0;
  double sum_of_squares = 0;
  uint64_t tokens = 0;

  double mean() const { return sum / static_cast<double>(tokens); }
  double perplexity() const { return std::exp(mean()); }
  // One standard error of the perplexity, taking tokens as independent.
  double perplexity_error() const;
  void add(const Loss& other);
};

class Evaluator {
 public:
  // window_tokens: of text; a BOS comes on top. kernels and pool outlive the evaluator.
  static Result<std::unique_ptr<Evaluator>> create(const gguf::File& file,
                                                   const kernels::KernelTable& kernels,
                                                   sys::ThreadPool& pool, uint32_t window_tokens);

  uint32_t window_tokens() const { return window_tokens_; }
  uint32_t vocabulary() const { return model_->config().vocabulary; }

  // The loss of 1 to window_tokens tokens, each given those before it in the window and the BOS,
  // which is not scored; without a BOS the first token is not.
  Loss window_loss(std::span<const TokenId> window, std::optional<TokenId> bos);

 private:
  Evaluator(std::unique_ptr<Model> model, const kernels::KernelTable& kernels,
            uint32_t window_tokens, sys::HugeBuffer kv_memory);

  std::unique_ptr<Model> model_;
  const kernels::KernelTable& kernels_;
  uint32_t window_tokens_;
  sys::HugeBuffer kv_memory_;
  kv::Storage kv_;
  std::vector<kv::BlockId> blocks_;
  std::vector<TokenId> tokens_;  // of a window with its BOS
  std::vector<float> logits_;    // [kChunk][vocabulary]
};

}  // namespace pacer::model
