#include "model/evaluation.h"

#include <algorithm>
#include <utility>

#include "base/math.h"

namespace pacer::model {

namespace {

// Tokens of one forward pass: enough to be compute bound, few enough that the logits of a large
// vocabulary stay at 64 MiB.
constexpr uint32_t kChunk = 64;

uint32_t block_count(uint32_t window_tokens) {
  return div_ceil(window_tokens + 1, kv::kBlockTokens);
}

}  // namespace

double Loss::perplexity_error() const {
  if (tokens < 2) return 0;
  const auto n = static_cast<double>(tokens);
  const double variance = std::max(0.0, sum_of_squares / n - mean() * mean());
  return perplexity() * std::sqrt(variance / (n - 1));
}

void Loss::add(const Loss& other) {
  sum += other.sum;
  sum_of_squares += other.sum_of_squares;
  tokens += other.tokens;
}

Result<std::unique_ptr<Evaluator>> Evaluator::create(const gguf::File& file,
                                                     const kernels::KernelTable& kernels,
                                                     sys::ThreadPool& pool,
                                                     uint32_t window_tokens) {
  ASSIGN_OR_RETURN(const Architecture* architecture, find_architecture(file));
  ASSIGN_OR_RETURN(const ModelConfig config, architecture->read_config(file, window_tokens));
  if (window_tokens > config.context_length) {
    return error(Code::kInvalidArgument,
                 "{}: windows of {} tokens are beyond the {} that the model was trained for",
                 file.path(), window_tokens, config.context_length);
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Model> model,
                   Model::load(file, kernels, pool, {.tokens = kChunk, .logit_rows = kChunk}));
  TRY(model->set_context(file, window_tokens));
  const size_t bytes = block_count(window_tokens) * model->kv_shape().block_bytes();
  ASSIGN_OR_RETURN(sys::HugeBuffer memory, sys::HugeBuffer::allocate(bytes, "the KV cache"));
  return std::unique_ptr<Evaluator>(
      new Evaluator(std::move(model), kernels, window_tokens, std::move(memory)));
}

Evaluator::Evaluator(std::unique_ptr<Model> model, const kernels::KernelTable& kernels,
                     uint32_t window_tokens, sys::HugeBuffer kv_memory)
    : model_(std::move(model)),
      kernels_(kernels),
      window_tokens_(window_tokens),
      kv_memory_(std::move(kv_memory)),
      kv_(model_->kv_shape(), block_count(window_tokens), {kv_memory_.data(), kv_memory_.size()}),
      logits_(size_t{kChunk} * vocabulary()) {
  for (uint32_t i = 0; i < kv_.block_count(); ++i) blocks_.push_back(kv::BlockId{i});
}

Loss Evaluator::window_loss(std::span<const TokenId> window, std::optional<TokenId> bos) {
  CHECK(!window.empty() && window.size() <= window_tokens_, "a window of {} tokens, made for {}",
        window.size(), window_tokens_);
  tokens_.assign(window.begin(), window.end());
  if (bos) tokens_.insert(tokens_.begin(), *bos);

  Loss loss;
  // The last token predicts nothing that is scored.
  const auto inputs = static_cast<uint32_t>(tokens_.size() - 1);
  for (uint32_t first = 0; first < inputs; first += kChunk) {
    const uint32_t count = std::min(kChunk, inputs - first);
    const SeqSpan span{
        .first_token = 0, .token_count = count, .first_position = first, .blocks = blocks_};
    uint32_t rows[kChunk];
    for (uint32_t i = 0; i < count; ++i) rows[i] = i;
    model_->forward({.tokens = std::span(tokens_).subspan(first, count),
                     .sequences = {&span, 1},
                     .logit_rows = {rows, count}},
                    kv_, logits_.data());
    for (uint32_t i = 0; i < count; ++i) {
      const float* row = logits_.data() + size_t{i} * vocabulary();
      const double nats =
          double{kernels_.log_sum_exp(row, vocabulary())} - row[tokens_[first + i + 1]];
      loss.add({.sum = nats, .sum_of_squares = nats * nats, .tokens = 1});
    }
  }
  return loss;
}

}  // namespace pacer::model
