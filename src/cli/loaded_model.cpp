#include "cli/loaded_model.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/human.h"
#include "base/log.h"
#include "base/version.h"
#include "cli/memory_plan.h"
#include "cli/model_source.h"
#include "gguf/file.h"
#include "kv/block_manager.h"
#include "model/registry.h"
#include "sys/cpu_features.h"
#include "sys/memory.h"
#include "text/utf8.h"

namespace pacer::cli {

namespace {

constexpr uint32_t kThreadsMax = 1024;  // what the pool takes

// Positions that a request may use: asked (the model and the KV cache must hold them), or as many
// as there are.
Result<uint32_t> context_length(std::optional<uint32_t> asked, uint32_t trained,
                                uint32_t kv_tokens) {
  if (!asked) return std::min(trained, kv_tokens);
  if (*asked > trained) {
    return error(Code::kInvalidArgument,
                 "max-model-len {} is beyond the {} tokens that the model was trained for", *asked,
                 trained);
  }
  if (*asked > kv_tokens) {
    return error(Code::kInvalidArgument, "max-model-len {} does not fit a KV cache of {} tokens",
                 *asked, kv_tokens);
  }
  return *asked;
}

model::BatchLimits batch_limits(const ModelOptions& options) {
  return {.tokens = options.step_tokens_max,
          .logit_rows = std::min(options.max_num_seqs, options.step_tokens_max)};
}

uint32_t thread_count(const ModelOptions& options) {
  return std::min(options.threads.value_or(sys::cpu_limits().threads), kThreadsMax);
}

// Before anything large is allocated: whether all of it fits.
Result<uint64_t> plan_memory(const ModelOptions& options, const gguf::File& file,
                             const kernels::KernelTable& kernels) {
  ASSIGN_OR_RETURN(const model::Architecture* architecture, model::find_architecture(file));
  ASSIGN_OR_RETURN(const model::ModelConfig config, architecture->read_config(file, 0));
  const model::BatchLimits limits = batch_limits(options);
  return plan_kv_bytes({.weights_bytes = packed_weights_bytes(file, kernels),
                        .scratch_bytes = scratch_bytes(config, limits, thread_count(options)),
                        .bodies_bytes = options.bodies_bytes},
                       memory_limit(sys::memory_limits(), options.max_memory_bytes),
                       options.kv_cache_bytes);
}

Status start_engine(const ModelOptions& options, const gguf::File& file, uint64_t kv_bytes,
                    std::unique_ptr<sched::Policy> policy, LoadedModel& loaded) {
  ASSIGN_OR_RETURN(const uint32_t blocks,
                   runner::kv_blocks_for_budget(loaded.model->kv_shape(), kv_bytes));
  ASSIGN_OR_RETURN(const uint32_t context,
                   context_length(options.max_model_len, loaded.model->config().context_length,
                                  blocks * kv::kBlockTokens));
  TRY(loaded.model->set_context(file, context));
  ASSIGN_OR_RETURN(loaded.executor,
                   runner::ModelExecutor::create(*loaded.model, *loaded.pool, blocks,
                                                 loaded.tokenizer->vocabulary_size()));
  loaded.metrics = std::make_unique<metrics::EngineMetrics>(loaded.name, context, blocks, kVersion);
  auto scheduler = std::make_unique<sched::Scheduler>(
      sched::SchedulerConfig{.step_tokens_max = options.step_tokens_max,
                             .running_max = options.max_num_seqs,
                             .block_count = blocks},
      std::move(policy));
  loaded.engine = std::make_unique<engine::Engine>(
      engine::EngineConfig{.max_model_len = context, .max_queue = options.max_queue},
      std::move(scheduler), *loaded.executor, *loaded.tokenizer, loaded.clock, *loaded.metrics);
  loaded.kv_blocks = blocks;
  return Ok{};
}

}  // namespace

Result<std::unique_ptr<text::ChatTemplate>> load_chat_template(const std::string& path,
                                                               const gguf::File& file,
                                                               const text::Tokenizer& tokenizer) {
  return path.empty() ? text::ChatTemplate::from_gguf(file, tokenizer)
                      : text::ChatTemplate::from_file(path, tokenizer);
}

Result<std::unique_ptr<LoadedModel>> load_model(const ModelOptions& options) {
  auto loaded = std::make_unique<LoadedModel>();
  const TimePoint start = loaded->clock.now();
  // What the flags alone can get wrong, before a large file is read.
  ASSIGN_OR_RETURN(auto policy, sched::make_policy(options.policy));
  ASSIGN_OR_RETURN(const std::string path, resolve_model(options.source));
  loaded->name = options.served_name.empty() ? std::filesystem::path(path).stem().string()
                                             : options.served_name;
  if (!text::is_valid_utf8(loaded->name)) {
    return error(Code::kInvalidArgument, "the served model name is not valid UTF-8");
  }
  sys::cpu_features();  // before any worker exists: the AMX permission is per process
  ASSIGN_OR_RETURN(loaded->kernels, kernels::choose_kernels());
  ASSIGN_OR_RETURN(const gguf::File file, gguf::File::open(path));
  ASSIGN_OR_RETURN(loaded->tokenizer, text::Tokenizer::from_gguf(file));
  ASSIGN_OR_RETURN(loaded->chat_template,
                   load_chat_template(options.chat_template_path, file, *loaded->tokenizer));
  ASSIGN_OR_RETURN(const uint64_t kv_bytes, plan_memory(options, file, *loaded->kernels));

  const uint32_t threads = thread_count(options);
  // Working alone after a stall pays where one of two cores was taken (measured); of many cores,
  // one that is late costs one tile.
  using Backoff = sys::ThreadPool::SoloBackoff;
  loaded->pool =
      std::make_unique<sys::ThreadPool>(threads, threads <= 2 ? Backoff::kOn : Backoff::kOff);
  ASSIGN_OR_RETURN(loaded->model, model::Model::load(file, *loaded->kernels, *loaded->pool,
                                                     batch_limits(options)));
  log::info("{}: {} of weights, {} kernels on {} threads, loaded in {:.2f} s", loaded->name,
            human_bytes(loaded->model->weight_bytes()), loaded->kernels->name,
            loaded->pool->thread_count(), seconds(loaded->clock.now() - start));
  TRY(start_engine(options, file, kv_bytes, std::move(policy), *loaded));
  return loaded;
}

}  // namespace pacer::cli
