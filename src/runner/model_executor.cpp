#include "runner/model_executor.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace pacer::runner {

namespace {

// Enough rows to run through the output matrix at a good rate; few enough that the logits of a
// large vocabulary stay at 32 MiB, however long a prompt is.
constexpr uint32_t kScoreRows = 32;

uint32_t score_rows(const model::BatchLimits& limits) {
  return std::min(kScoreRows, limits.tokens);
}

}  // namespace

uint64_t executor_scratch_bytes(uint32_t vocabulary, const model::BatchLimits& limits,
                                uint32_t workers) {
  const uint64_t rows = std::max(limits.logit_rows, score_rows(limits));
  return vocabulary * (rows * sizeof(float) + workers * sampling::Sampler::kBytesPerToken);
}

Result<uint32_t> kv_blocks_for_budget(const kv::KvShape& shape, uint64_t budget_bytes) {
  const uint64_t blocks = budget_bytes / shape.block_bytes();
  if (blocks == 0) {
    return error(Code::kInvalidArgument,
                 "a KV cache of {} bytes holds no block: one of {} tokens takes {} bytes",
                 budget_bytes, kv::kBlockTokens, shape.block_bytes());
  }
  return static_cast<uint32_t>(std::min<uint64_t>(blocks, UINT32_MAX / kv::kBlockTokens));
}

Result<std::unique_ptr<ModelExecutor>> ModelExecutor::create(model::Model& model,
                                                             sys::ThreadPool& pool,
                                                             uint32_t kv_blocks,
                                                             uint32_t token_count) {
  CHECK(token_count > 0 && token_count <= model.config().vocabulary,
        "{} tokens to choose from {} logits", token_count, model.config().vocabulary);
  ASSIGN_OR_RETURN(
      sys::HugeBuffer memory,
      sys::HugeBuffer::allocate(kv_blocks * model.kv_shape().block_bytes(), "the KV cache"));
  return std::unique_ptr<ModelExecutor>(
      new ModelExecutor(model, pool, kv_blocks, token_count, std::move(memory)));
}

ModelExecutor::ModelExecutor(model::Model& model, sys::ThreadPool& pool, uint32_t kv_blocks,
                             uint32_t token_count, sys::HugeBuffer kv_memory)
    : model_(model),
      pool_(pool),
      token_count_(token_count),
      kv_memory_(std::move(kv_memory)),
      kv_(model.kv_shape(), kv_blocks, {kv_memory_.data(), kv_memory_.size()}),
      score_rows_(score_rows(model.limits())),
      logits_(size_t{std::max(model.limits().logit_rows, score_rows_)} *
              model.config().vocabulary) {
  for (uint32_t i = 0; i < pool.thread_count(); ++i)
    samplers_.emplace_back(model.kernels(), token_count);
}

Result<sched::StepResult> ModelExecutor::run(std::span<const sched::StepItem> items) {
  build_batch(items);
  model_.forward({.tokens = tokens_, .sequences = spans_, .logit_rows = logit_rows_}, kv_,
                 logits_.get());
  sched::StepResult result;
  sample(items, result);
  score(items, result);
  return result;
}

void ModelExecutor::build_batch(std::span<const sched::StepItem> items) {
  tokens_.clear();
  spans_.clear();
  logit_rows_.clear();
  for (const sched::StepItem& item : items) {
    const sched::Sequence& seq = *item.sequence;
    CHECK(item.first + item.count <= seq.length(), "tokens {} + {} of a sequence of {}", item.first,
          item.count, seq.length());
    spans_.push_back({.first_token = static_cast<uint32_t>(tokens_.size()),
                      .token_count = item.count,
                      .first_position = item.first,
                      .blocks = seq.blocks});
    tokens_.insert(tokens_.end(), seq.tokens.begin() + item.first,
                   seq.tokens.begin() + item.first + item.count);
    if (item.sample) logit_rows_.push_back(static_cast<uint32_t>(tokens_.size()) - 1);
  }
}

std::span<float> ModelExecutor::logits_of(uint32_t row) {
  return {logits_.get() + size_t{row} * model_.config().vocabulary, token_count_};
}

void ModelExecutor::sample(std::span<const sched::StepItem> items, sched::StepResult& result) {
  std::vector<const sched::Sequence*> sampled;
  for (const sched::StepItem& item : items) {
    if (item.sample) sampled.push_back(item.sequence);
  }
  result.tokens.resize(sampled.size());
  pool_.parallel_for(static_cast<uint32_t>(sampled.size()), [&](uint32_t row, uint32_t worker) {
    const sched::Sequence& seq = *sampled[row];
    result.tokens[row] =
        samplers_[worker].sample(logits_of(row), seq.sampling, seq.tokens, seq.prompt_length);
  });
}

// Prompt tokens that are wanted with their log-probabilities, in slices whose logits take the place
// of those that were sampled from.
void ModelExecutor::score(std::span<const sched::StepItem> items, sched::StepResult& result) {
  struct Scored {
    TokenId token;
    uint32_t top_count;
  };
  std::vector<Scored> scored;
  std::vector<uint32_t> rows;  // of the batch: that of the token before
  for (size_t i = 0; i < items.size(); ++i) {
    const sched::StepItem& item = items[i];
    for (uint32_t k = 0; k < item.score_count; ++k) {
      const uint32_t position = item.score_first + k;
      CHECK(position > item.first && position <= item.first + item.count,
            "token {} is not scored by tokens {} + {}", position, item.first, item.count);
      scored.push_back({.token = item.sequence->tokens[position],
                        .top_count = item.sequence->sampling.logprobs.value_or(0)});
      rows.push_back(spans_[i].first_token + (position - 1 - item.first));
    }
  }
  result.scored.resize(scored.size());
  for (uint32_t first = 0; first < scored.size(); first += score_rows_) {
    const auto count = std::min(score_rows_, static_cast<uint32_t>(scored.size()) - first);
    model_.more_logits(std::span(rows).subspan(first, count), kv_, logits_.get());
    pool_.parallel_for(count, [&](uint32_t row, uint32_t worker) {
      const auto& [token, top_count] = scored[first + row];
      result.scored[first + row] = samplers_[worker].score(logits_of(row), token, top_count);
    });
  }
}

}  // namespace pacer::runner
