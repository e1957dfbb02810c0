// Everything between a GGUF path and a ready engine, put together once for serve and run.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "engine/engine.h"
#include "gguf/file.h"
#include "kernels/kernel_table.h"
#include "metrics/engine_metrics.h"
#include "model/model.h"
#include "runner/model_executor.h"
#include "sys/thread_pool.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace pacer::cli {

struct ModelOptions {
  std::string source;       // a path, or where to fetch it from (model_source.h)
  std::string served_name;  // empty: the file's name without .gguf
  std::optional<uint32_t>
      max_model_len;  // nothing: what the model was trained for, as far as the KV cache holds it
  uint32_t max_num_seqs = 32;
  uint32_t max_queue = 256;
  uint32_t step_tokens_max = 256;
  std::optional<uint64_t>
      kv_cache_bytes;  // nothing: 2 GiB, or half of what is left of the memory if that is less
  std::optional<uint64_t> max_memory_bytes;  // nothing: what machine and cgroups have free
  uint64_t bodies_bytes = 0;                 // that HTTP may take beside
  std::optional<uint32_t> threads;  // nothing: the cores and CPU quota that this process has
  std::string policy = "fcfs";
  std::string chat_template_path;  // empty: the model's own
};

struct LoadedModel {
  std::string name;
  const kernels::KernelTable* kernels = nullptr;
  uint32_t kv_blocks = 0;
  SystemClock clock;
  std::unique_ptr<sys::ThreadPool> pool;
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::unique_ptr<text::ChatTemplate> chat_template;
  std::unique_ptr<model::Model> model;
  std::unique_ptr<runner::ModelExecutor> executor;
  std::unique_ptr<metrics::EngineMetrics> metrics;
  std::unique_ptr<engine::Engine> engine;
};

// The template in the file at `path`, or the model's own when there is no path.
Result<std::unique_ptr<text::ChatTemplate>> load_chat_template(const std::string& path,
                                                               const gguf::File& file,
                                                               const text::Tokenizer& tokenizer);

// Fetches the model if it is not there, loads it, and logs what it chose. Every refusal is one
// sentence.
Result<std::unique_ptr<LoadedModel>> load_model(const ModelOptions& options);

}  // namespace pacer::cli
