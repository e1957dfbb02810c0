#include "runner/model_executor.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace pacer::runner {

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
      logits_(size_t{model.limits().logit_rows} * model.config().vocabulary) {
  for (uint32_t i = 0; i < pool.thread_count(); ++i)
    samplers_.emplace_back(model.kernels(), token_count);
}

Result<sched::StepResult> ModelExecutor::run(std::span<const sched::StepItem> items) {
  build_batch(items);
  model_.forward({.tokens = tokens_, .sequences = spans_, .logit_rows = logit_rows_}, kv_,
                 logits_.get());
  return sample(items);
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

sched::StepResult ModelExecutor::sample(std::span<const sched::StepItem> items) {
  std::vector<const sched::Sequence*> sampled;
  for (const sched::StepItem& item : items) {
    if (item.sample) sampled.push_back(item.sequence);
  }
  sched::StepResult result;
  result.tokens.resize(sampled.size());
  const uint32_t vocabulary = model_.config().vocabulary;
  pool_.parallel_for(static_cast<uint32_t>(sampled.size()), [&](uint32_t row, uint32_t worker) {
    const sched::Sequence& seq = *sampled[row];
    const std::span<const float> logits(logits_.get() + size_t{row} * vocabulary, token_count_);
    result.tokens[row] = samplers_[worker].sample(logits, seq.sampling, seq.output_length());
  });
  return result;
}

}  // namespace pacer::runner
