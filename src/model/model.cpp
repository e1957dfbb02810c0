#include "model/model.h"

#include <utility>

#include "base/check.h"

namespace pacer::model {

Model::Model(ModelConfig config, BatchLimits limits, const kernels::KernelTable& kernels,
             sys::ThreadPool& pool)
    : config_(std::move(config)),
      limits_(limits),
      kernels_(kernels),
      pool_(pool),
      workspace_(config_, limits, kernels, pool.thread_count()) {}

Result<std::unique_ptr<Model>> Model::load(const gguf::File& file,
                                           const kernels::KernelTable& kernels,
                                           sys::ThreadPool& pool, BatchLimits limits) {
  ASSIGN_OR_RETURN(const Architecture* architecture, find_architecture(file));
  ASSIGN_OR_RETURN(ModelConfig config, architecture->read_config(file, 0));
  WeightLoader loader(file, kernels);
  ASSIGN_OR_RETURN(std::unique_ptr<Network> network, architecture->bind(config, loader));
  ASSIGN_OR_RETURN(sys::HugeBuffer weights, loader.finish(pool));
  file.release_pages();

  std::unique_ptr<Model> model(new Model(std::move(config), limits, kernels, pool));
  model->network_ = std::move(network);
  model->weights_ = std::move(weights);
  return model;
}

Status Model::check(const gguf::File& file, const kernels::KernelTable& kernels) {
  ASSIGN_OR_RETURN(const Architecture* architecture, find_architecture(file));
  ASSIGN_OR_RETURN(const ModelConfig config, architecture->read_config(file, 0));
  WeightLoader loader(file, kernels);
  TRY(architecture->bind(config, loader));
  return loader.check_all_claimed();
}

Status Model::set_context(const gguf::File& file, uint32_t tokens) {
  ASSIGN_OR_RETURN(const Architecture* architecture, find_architecture(file));
  ASSIGN_OR_RETURN(ModelConfig config, architecture->read_config(file, tokens));
  config_.ropes = std::move(config.ropes);
  return Ok{};
}

kv::KvShape Model::kv_shape() const {
  return {.layers = config_.layers, .kv_heads = config_.kv_heads, .head_dim = config_.head_dim};
}

void Model::forward(const ForwardBatch& batch, kv::Storage& kv, float* logits) {
  check_batch(batch);
  ForwardContext ctx{
      .kernels = kernels_, .pool = pool_, .kv = kv, .config = config_, .work = workspace_};
  network_->forward(ctx, batch, logits);
}

void Model::more_logits(std::span<const uint32_t> rows, kv::Storage& kv, float* logits) {
  for (const uint32_t row : rows) {
    CHECK(row < limits_.tokens, "logits of row {} in a workspace for {}", row, limits_.tokens);
  }
  ForwardContext ctx{
      .kernels = kernels_, .pool = pool_, .kv = kv, .config = config_, .work = workspace_};
  network_->more_logits(ctx, rows, logits);
}

void Model::check_batch(const ForwardBatch& batch) const {
  CHECK(batch.token_count() <= limits_.tokens && batch.logit_rows.size() <= limits_.logit_rows,
        "{} tokens and {} logit rows in a workspace for {} and {}", batch.token_count(),
        batch.logit_rows.size(), limits_.tokens, limits_.logit_rows);
  uint32_t next = 0;
  for (const SeqSpan& seq : batch.sequences) {
    CHECK(seq.first_token == next && seq.token_count > 0,
          "a sequence starts at token {}, the one before ended at {}", seq.first_token, next);
    CHECK(seq.first_position + seq.token_count <= seq.blocks.size() * kv::kBlockTokens,
          "positions {} + {} do not fit {} blocks", seq.first_position, seq.token_count,
          seq.blocks.size());
    next += seq.token_count;
  }
  CHECK(next == batch.token_count(), "sequences cover {} of {} tokens", next, batch.token_count());
  for (const uint32_t row : batch.logit_rows)
    CHECK(row < next, "logits of row {} of {}", row, next);
}

}  // namespace pacer::model
