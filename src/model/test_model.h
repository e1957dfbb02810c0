// A loaded model with a KV cache of its own, for tests: of this folder and of those above it.
//
//   TestModel model(file, kernels, {.tokens = 64, .logit_rows = 64});
//   std::vector<float> logits = model.forward(tokens, {{.first_token = 0, ...}});
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/math.h"
#include "model/model.h"

namespace pacer::model {

class TestModel {
 public:
  static constexpr uint32_t kBlocks = 64;

  // context: of the longest sequence; 0: what the model was trained for.
  TestModel(const gguf::File& file, const kernels::KernelTable& kernels, BatchLimits limits,
            uint32_t threads = 2, uint32_t context = 0)
      : pool_(threads),
        model_(must(Model::load(file, kernels, pool_, limits))),
        memory_(
            must(sys::HugeBuffer::allocate(kBlocks * model_->kv_shape().block_bytes(), "test KV"))),
        kv_(model_->kv_shape(), kBlocks, {memory_.data(), memory_.size()}) {
    if (context > 0) must(model_->set_context(file, context));
  }

  const Model& model() const { return *model_; }
  uint32_t vocabulary() const { return model_->config().vocabulary; }

  // Logits [tokens][vocabulary] of every token.
  std::vector<float> forward(std::span<const TokenId> tokens, const std::vector<SeqSpan>& spans) {
    std::vector<uint32_t> rows(tokens.size());
    for (uint32_t i = 0; i < rows.size(); ++i) rows[i] = i;
    std::vector<float> logits(tokens.size() * vocabulary());
    model_->forward({.tokens = tokens, .sequences = spans, .logit_rows = rows}, kv_, logits.data());
    return logits;
  }

  // Tokens [first, first + count) of a sequence that has the pool to itself, after those before
  // them.
  std::vector<float> forward(std::span<const TokenId> tokens, uint32_t first, uint32_t count) {
    const std::vector<kv::BlockId> blocks = scattered(0, kBlocks);
    return forward(
        tokens.subspan(first, count),
        {{.first_token = 0, .token_count = count, .first_position = first, .blocks = blocks}});
  }

  // Blocks [begin, end) of the pool in another order: block i of a sequence is not block i of the
  // pool.
  static std::vector<kv::BlockId> scattered(uint32_t begin, uint32_t end) {
    std::vector<kv::BlockId> blocks;
    for (uint32_t i = begin; i < end; ++i) {
      blocks.push_back(kv::BlockId{(i * 37 + 11) % kBlocks});  // 37 and 64 have no common divisor
    }
    return blocks;
  }

 private:
  template <class T>
  static T must(Result<T> result) {
    CHECK(result.ok(), "{}", result.error().message);
    return *std::move(result);
  }

  sys::ThreadPool pool_;
  std::unique_ptr<Model> model_;
  sys::HugeBuffer memory_;
  kv::Storage kv_;
};

}  // namespace pacer::model
