// The whole engine on a tiny random model: real executor, real scheduler, every tier; no model
// file.
#include "runner/model_executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "gguf/test_gguf.h"
#include "model/test_model.h"
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
  std::vector<SampledToken> scored{};  // the prompt from its second token
  bool operator==(const Answer& other) const { return tokens == other.tokens; }
};

struct Request {
  std::vector<TokenId> prompt;
  uint32_t output;
  SamplingParams sampling;
  bool scores_prompt = false;
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
    seq.scores_prompt = requests[i].scores_prompt;
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
    size_t next_scored = 0;
    for (const sched::StepItem& item : step.items) {
      const sched::Sequence& seq = *item.sequence;
      for (uint32_t k = 0; k < item.score_count; ++k) {
        answers[sched::value(seq.id)].scored.push_back(result->scored[next_scored++].value());
      }
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

TEST(ModelExecutor, EditsOfLogitsDoNotDependOnBatchChunksOrPreemptionEither) {
  const gguf::TempFile path(tiny_model().bytes());
  const auto file = gguf::File::open(path.path());
  ASSERT_TRUE(file.ok()) << file.error().message;
  Rng rng(6);
  std::vector<Request> requests;
  for (uint32_t i = 0; i < 6; ++i) {
    Request request{.prompt = {}, .output = 30, .sampling = {.temperature = i % 2 ? 0.9f : 0}};
    for (uint32_t k = 0; k < 10 + 9 * i; ++k)
      request.prompt.push_back(static_cast<TokenId>(rng.below(kVocabulary)));
    SamplingParams& sampling = request.sampling;
    sampling.seed = i;
    if (i != 1) sampling.frequency_penalty = 1.5f;
    if (i % 3 == 0) sampling.repetition_penalty = 1.3f;
    if (i == 2) sampling.logit_bias = {{5, 3.0f}, {6, -100.0f}};
    if (i == 4) sampling.min_tokens = 30;
    if (i == 4) sampling.ends = {1, 2, 3};
    requests.push_back(std::move(request));
  }
  const kernels::KernelTable& kernels = *kernels::supported_kernels().front();
  const auto alone = run(*file, kernels, 1,
                         {.step_tokens_max = 128, .running_max = 1, .block_count = 64}, requests);
  for (const TokenId id : alone[2].tokens) EXPECT_NE(id, 6u);
  for (const TokenId id : alone[4].tokens) EXPECT_FALSE(id >= 1 && id <= 3);
  EXPECT_EQ(
      run(*file, kernels, 2, {.step_tokens_max = 7, .running_max = 6, .block_count = 64}, requests),
      alone)
      << "batched, in small chunks";
  EXPECT_EQ(
      run(*file, kernels, 2, {.step_tokens_max = 50, .running_max = 6, .block_count = 9}, requests),
      alone)
      << "with preemptions";
}

// Log-probabilities of every token but the first, by one pass over the whole text.
std::vector<SampledToken> naive_scores(const gguf::File& file, const kernels::KernelTable& kernels,
                                       const std::vector<TokenId>& tokens) {
  model::TestModel model(file, kernels, {.tokens = 256, .logit_rows = 256}, /*threads=*/1);
  const std::vector<float> logits = model.forward(tokens, 0, static_cast<uint32_t>(tokens.size()));
  std::vector<SampledToken> scores;
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    const float* row = logits.data() + i * kVocabulary;
    double sum = 0;
    for (uint32_t id = 0; id < kVocabulary; ++id) sum += std::exp(double{row[id]});
    const auto logprob = [&](TokenId id) {
      return static_cast<float>(double{row[id]} - std::log(sum));
    };
    SampledToken score{.id = tokens[i + 1], .logprob = logprob(tokens[i + 1])};
    const auto best = static_cast<TokenId>(std::max_element(row, row + kVocabulary) - row);
    score.top = {{best, logprob(best)}};
    scores.push_back(std::move(score));
  }
  return scores;
}

TEST(ModelExecutor, LogprobsOfAPromptAreThoseOfANaivePassChunkedBatchedAndAfterPreemption) {
  const gguf::TempFile path(tiny_model().bytes());
  const auto file = gguf::File::open(path.path());
  ASSERT_TRUE(file.ok()) << file.error().message;
  Rng rng(7);
  std::vector<Request> requests;
  for (uint32_t i = 0; i < 6; ++i) {
    Request request{.prompt = {},
                    .output = 40,
                    .sampling = {.temperature = 0, .logprobs = 1u},
                    .scores_prompt = i != 3};  // one beside them that does not score
    for (uint32_t k = 0; k < 1 + 17 * i; ++k)
      request.prompt.push_back(static_cast<TokenId>(rng.below(kVocabulary)));
    requests.push_back(std::move(request));
  }
  for (const kernels::KernelTable* kernels : kernels::supported_kernels()) {
    SCOPED_TRACE(kernels->name);
    std::vector<Answer> plain;
    for (const auto& [what, config] :
         {std::pair{
              "alone, more rows than a slice has",
              sched::SchedulerConfig{.step_tokens_max = 256, .running_max = 1, .block_count = 64}},
          {"batched", {.step_tokens_max = 256, .running_max = 6, .block_count = 64}},
          {"in small chunks", {.step_tokens_max = 7, .running_max = 6, .block_count = 64}},
          {"with preemptions", {.step_tokens_max = 90, .running_max = 6, .block_count = 10}}}) {
      SCOPED_TRACE(what);
      const auto answers = run(*file, *kernels, 2, config, requests);
      if (plain.empty()) plain = answers;
      EXPECT_EQ(answers, plain) << "the answers";
      for (size_t i = 0; i < requests.size(); ++i) {
        SCOPED_TRACE(testing::Message() << "request " << i);
        if (!requests[i].scores_prompt) {
          EXPECT_TRUE(answers[i].scored.empty());
          continue;
        }
        const auto expected = naive_scores(*file, *kernels, requests[i].prompt);
        ASSERT_EQ(answers[i].scored.size(), expected.size());
        for (size_t k = 0; k < expected.size(); ++k) {
          EXPECT_EQ(answers[i].scored[k].id, expected[k].id);
          EXPECT_NEAR(answers[i].scored[k].logprob, expected[k].logprob, 2e-3) << k;
          ASSERT_EQ(answers[i].scored[k].top.size(), 1u);
          EXPECT_NEAR(answers[i].scored[k].top[0].logprob, expected[k].top[0].logprob, 2e-3) << k;
        }
      }
    }
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
