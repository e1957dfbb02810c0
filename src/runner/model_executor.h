// The real executor: a step's items to a forward batch, through the model, to sampled tokens.
//
// Owns the bytes of the KV cache, within a budget fixed at start. Called from the engine thread;
// uses the pool's workers.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "kv/storage.h"
#include "model/model.h"
#include "sampling/sampler.h"
#include "sched/executor.h"
#include "sys/memory.h"
#include "sys/thread_pool.h"

namespace pacer::runner {

// How many blocks a byte budget holds. kInvalidArgument when not even one sequence of a block fits.
Result<uint32_t> kv_blocks_for_budget(const kv::KvShape& shape, uint64_t budget_bytes);

// What an executor keeps of the vocabulary: rows of logits, and what each worker samples with.
uint64_t executor_scratch_bytes(uint32_t vocabulary, const model::BatchLimits& limits,
                                uint32_t workers);

class ModelExecutor final : public sched::Executor {
 public:
  // model and pool outlive the executor.
  // token_count: tokens that the tokenizer knows; a padded embedding has more, which are never
  // chosen.
  static Result<std::unique_ptr<ModelExecutor>> create(model::Model& model, sys::ThreadPool& pool,
                                                       uint32_t kv_blocks, uint32_t token_count);

  Result<sched::StepResult> run(std::span<const sched::StepItem> items) override;

 private:
  ModelExecutor(model::Model& model, sys::ThreadPool& pool, uint32_t kv_blocks,
                uint32_t token_count, sys::HugeBuffer kv_memory);
  void build_batch(std::span<const sched::StepItem> items);
  void sample(std::span<const sched::StepItem> items, sched::StepResult& result);
  void score(std::span<const sched::StepItem> items, sched::StepResult& result);
  std::span<float> logits_of(uint32_t row);  // without the padding of the vocabulary

  model::Model& model_;
  sys::ThreadPool& pool_;
  uint32_t token_count_;
  sys::HugeBuffer kv_memory_;
  kv::Storage kv_;
  std::vector<sampling::Sampler> samplers_;  // one per worker
  uint32_t score_rows_;                      // prompt tokens that are scored at once
  model::Scratch<float> logits_;             // [max(logit_rows, score_rows_)][vocabulary]

  // The batch of the current step; capacity is kept from step to step.
  std::vector<TokenId> tokens_;
  std::vector<model::SeqSpan> spans_;
  std::vector<uint32_t> logit_rows_;
};

}  // namespace pacer::runner
