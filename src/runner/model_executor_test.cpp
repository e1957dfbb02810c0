// The whole engine on a tiny random model: real executor, real scheduler, every tier; no model
// file.
#include "runner/model_executor.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "gguf/test_gguf.h"
#include "sched/scheduler.h"
#include "sys/thread_pool.h"

namespace pacer::runner {
namespace {

constexpr uint32_t kVocabulary = 80;

gguf::GgufWriter tiny_model() {
  gguf::GgufWriter writer;
  writer.add_string("general.architecture", "llama")
      .add_u32("llama.block_count", 2)
      .add_u32("llama.embedding_length", 64)
      .add_u32("llama.feed_forward_length", 96)
      .add_u32("llama.attention.head_count", 4)
      .add_u32("llama.attention.head_count_kv", 2)
      .add_u32("llama.context_length", 256)
      .add_f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  Rng rng(11);
  const auto add = [&](const std::string& name, tensor::DType dtype, std::vector<uint64_t> shape,
                       float center) {
    uint64_t count = 1;
    for (const uint64_t n : shape) count *= n;
    std::vector<float> values(count);
    for (float& x : values) x = center + 0.4f * static_cast<float>(2 * rng.uniform() - 1);
    writer.add_tensor(name, dtype, shape, values);
  };
  using tensor::DType;
  add("token_embd.weight", DType::kQ8_0, {64, kVocabulary}, 0);
  add("output_norm.weight", DType::kF32, {64}, 1);
  for (const std::string p : {"blk.0.", "blk.1."}) {
    add(p + "attn_norm.weight", DType::kF32, {64}, 1);
    add(p + "attn_q.weight", DType::kQ4_1, {64, 64}, 0);
    add(p + "attn_k.weight", DType::kQ4_0, {64, 32}, 0);
    add(p + "attn_v.weight", DType::kQ8_0, {64, 32}, 0);
    add(p + "attn_output.weight", DType::kF16, {64, 64}, 0);
    add(p + "ffn_norm.weight", DType::kF32, {64}, 1);
    add(p + "ffn_gate.weight", DType::kQ4_1, {64, 96}, 0);
    add(p + "ffn_up.weight", DType::kBF16, {64, 96}, 0);
    add(p + "ffn_down.weight", DType::kQ4_0, {96, 64}, 0);
  }
  return writer;
}

struct Answer {
  std::vector<TokenId> tokens;
  bool operator==(const Answer&) const = default;
};

struct Request {
  std::vector<TokenId> prompt;
  uint32_t output;
  SamplingParams sampling;
};

// Runs all requests to their end on one scheduler; the answer of each.
std::vector<Answer> run(const gguf::File& file, const kernels::KernelTable& kernels,
                        uint32_t threads, sched::SchedulerConfig config,
                        const std::vector<Request>& requests) {
  sys::ThreadPool pool(threads);
  auto model = model::Model::load(
      file, kernels, pool, {.tokens = config.step_tokens_max, .logit_rows = config.running_max});
  CHECK(model.ok(), "{}", model.error().message);
  auto executor = ModelExecutor::create(**model, pool, config.block_count, kVocabulary);
  CHECK(executor.ok(), "{}", executor.error().message);
  sched::Scheduler scheduler(config, *sched::make_policy("fcfs"));
  for (size_t i = 0; i < requests.size(); ++i) {
    sched::Sequence seq;
    seq.id = sched::SeqId{i};
    seq.tokens = requests[i].prompt;
    seq.prompt_length = seq.length();
    seq.length_max = seq.length() + requests[i].output;
    seq.sampling = requests[i].sampling;
    scheduler.add(std::move(seq));
  }
  std::vector<Answer> answers(requests.size());
  while (true) {
    const auto step = scheduler.plan({});
    if (step.empty()) return answers;
    auto result = (*executor)->run(step.items);
    CHECK(result.ok(), "{}", result.error().message);
    scheduler.commit(step, *result);
    std::vector<sched::SeqId> done;
    for (const sched::StepItem& item : step.items) {
      const sched::Sequence& seq = *item.sequence;
      if (seq.length() < seq.length_max) continue;
      answers[sched::value(seq.id)].tokens.assign(seq.tokens.begin() + seq.prompt_length,
                                                  seq.tokens.end());
      done.push_back(seq.id);
    }
    for (const sched::SeqId id : done) scheduler.finish(id);
  }
}

TEST(ModelExecutor, AnswersDoNotDependOnBatchChunksPreemptionOrThreads) {
  const gguf::TempFile path(tiny_model().bytes());
  const auto file = gguf::File::open(path.path());
  ASSERT_TRUE(file.ok()) << file.error().message;
  Rng rng(5);
  std::vector<Request> requests;
  for (uint32_t i = 0; i < 6; ++i) {
    Request request{
        .prompt = {}, .output = 20 + i, .sampling = {.temperature = i % 2 ? 0.9f : 0, .seed = i}};
    for (uint32_t k = 0; k < 10 + 9 * i; ++k)
      request.prompt.push_back(static_cast<TokenId>(rng.below(kVocabulary)));
    requests.push_back(std::move(request));
  }
  for (const kernels::KernelTable* kernels : kernels::supported_kernels()) {
    SCOPED_TRACE(kernels->name);
    const auto alone = run(*file, *kernels, 1,
                           {.step_tokens_max = 128, .running_max = 1, .block_count = 64}, requests);
    EXPECT_EQ(alone[5].tokens.size(), 25u);
    EXPECT_EQ(run(*file, *kernels, 2, {.step_tokens_max = 128, .running_max = 6, .block_count = 64},
                  requests),
              alone)
        << "batched";
    EXPECT_EQ(run(*file, *kernels, 3, {.step_tokens_max = 7, .running_max = 6, .block_count = 64},
                  requests),
              alone)
        << "in small chunks";
    EXPECT_EQ(run(*file, *kernels, 2, {.step_tokens_max = 50, .running_max = 6, .block_count = 9},
                  requests),
              alone)
        << "with preemptions";
  }
}

TEST(ModelExecutor, TheBudgetHoldsWholeBlocksAndAtLeastOne) {
  const kv::KvShape shape{.layers = 2, .kv_heads = 2, .head_dim = 16};
  EXPECT_EQ(*kv_blocks_for_budget(shape, 3 * shape.block_bytes() + 1), 3u);
  const auto none = kv_blocks_for_budget(shape, shape.block_bytes() - 1);
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find(std::to_string(shape.block_bytes())), std::string::npos);
}

}  // namespace
}  // namespace pacer::runner
