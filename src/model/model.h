// A loaded model: its weights in the chosen kernel tier's layout, its network and its workspace.
//
// forward() runs on the calling thread and the pool's workers; one at a time.
#pragma once

#include <memory>

#include "base/result.h"
#include "gguf/file.h"
#include "kernels/kernel_table.h"
#include "kv/storage.h"
#include "model/config.h"
#include "model/forward_batch.h"
#include "model/forward_context.h"
#include "model/registry.h"
#include "sys/memory.h"
#include "sys/thread_pool.h"

namespace pacer::model {

class Model {
 public:
  // kernels and pool outlive the model; the file need not.
  static Result<std::unique_ptr<Model>> load(const gguf::File& file,
                                             const kernels::KernelTable& kernels,
                                             sys::ThreadPool& pool, BatchLimits limits);

  // Whether load() would take the file, at the cost of reading its directory.
  static Status check(const gguf::File& file, const kernels::KernelTable& kernels);

  // The longest sequence that will be run, where it is not what the model was trained for: rotary
  // positions of some models depend on it. Before the first forward(); the file is the model's.
  Status set_context(const gguf::File& file, uint32_t tokens);

  const ModelConfig& config() const { return config_; }
  const BatchLimits& limits() const { return limits_; }
  const kernels::KernelTable& kernels() const { return kernels_; }
  kv::KvShape kv_shape() const;
  size_t weight_bytes() const { return weights_.size(); }

  // Computes keys and values of all tokens of the batch into kv, and logits
  // [logit_rows][vocabulary].
  void forward(const ForwardBatch& batch, kv::Storage& kv, float* logits);
  // Logits of further rows of the batch that forward() ran last: each row of a batch once. For who
  // wants so many rows that their logits would be too large to keep at once.
  void more_logits(std::span<const uint32_t> rows, kv::Storage& kv, float* logits);

 private:
  Model(ModelConfig config, BatchLimits limits, const kernels::KernelTable& kernels,
        sys::ThreadPool& pool);
  void check_batch(const ForwardBatch& batch) const;

  ModelConfig config_;
  BatchLimits limits_;
  const kernels::KernelTable& kernels_;
  sys::ThreadPool& pool_;
  sys::HugeBuffer weights_;
  std::unique_ptr<Network> network_;
  Workspace workspace_;
};

}  // namespace pacer::model
