// The whole loop with a scripted executor and a clock that stands still: no weights, no threads, no
// sleeping.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "base/rng.h"
#include "base/test_seed.h"
#include "sched/scripted_executor.h"
#include "text/test_tokenizer.h"

namespace pacer::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class Recorder final : public OutputSink {
 public:
  void on_output(OutputEvent event) override {
    EXPECT_FALSE(finish.has_value()) << "an event after the last one";
    text += event.text;
    EXPECT_TRUE(event.prompt.empty() || tokens.empty()) << "of the prompt, after the answer began";
    for (SampledToken& token : event.prompt) prompt.push_back(std::move(token));
    for (SampledToken& token : event.tokens) tokens.push_back(std::move(token));
    if (event.finish) finish = std::move(event.finish);
  }
  std::string text;
  std::vector<SampledToken> tokens;
  std::vector<SampledToken> prompt;
  std::optional<Finish> finish;
};

class EngineTest : public ::testing::Test {
 protected:
  explicit EngineTest(sched::SchedulerConfig config = {.step_tokens_max = 64,
                                                       .running_max = 4,
                                                       .block_count = 64})
      : executor_(sched::echo_prompt(text::kTestImEnd)) {
    make(config, {.max_model_len = 512, .max_queue = 8});
  }

  void make(sched::SchedulerConfig config, EngineConfig engine_config) {
    engine_.reset();
    metrics_ = std::make_unique<metrics::EngineMetrics>("test", engine_config.max_model_len,
                                                        config.block_count, "0");
    engine_ = std::make_unique<Engine>(
        engine_config, std::make_unique<sched::Scheduler>(config, *sched::make_policy("fcfs")),
        executor_, *tokenizer_, clock_, *metrics_);
  }

  GenerateRequest request(const std::string& prompt, uint32_t max_tokens = 100) {
    return {.name = "test",
            .prompt = tokenizer_->encode(prompt),
            .max_tokens = max_tokens,
            .arrived = clock_.now()};
  }

  std::pair<RequestId, std::shared_ptr<Recorder>> submit(GenerateRequest r) {
    auto recorder = std::make_shared<Recorder>();
    const auto id = engine_->submit(std::move(r), recorder);
    EXPECT_TRUE(id.ok()) << (id.ok() ? "" : id.error().message);
    return {*id, recorder};
  }

  void run_to_idle() {
    for (int i = 0; engine_->step(); ++i) ASSERT_LT(i, 100000) << "never idle";
  }

  double metric(const std::string& line_start) {
    const std::string text = metrics_->text(engine_->stalled_for());
    const size_t at = text.find("\n" + line_start);
    EXPECT_NE(at, std::string::npos) << line_start << " in\n" << text;
    if (at == std::string::npos) return -1;
    const size_t space = text.find(' ', text.find('}', at));
    return std::stod(text.substr(space));
  }

  ManualClock clock_;
  std::unique_ptr<text::Tokenizer> tokenizer_ = text::test_tokenizer();
  sched::ScriptedExecutor executor_;
  std::unique_ptr<metrics::EngineMetrics> metrics_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineTest, AnAnswerEndsWithTheEndOfGenerationTokenWhichIsCountedButNotShown) {
  const auto [id, answer] = submit(request("hello"));
  run_to_idle();
  EXPECT_EQ(answer->text, "hello");
  ASSERT_TRUE(answer->finish);
  EXPECT_EQ(answer->finish->reason, FinishReason::kStop);
  EXPECT_EQ(answer->finish->prompt_tokens, 5u);
  EXPECT_EQ(answer->finish->output_tokens, 6u);
  EXPECT_EQ(answer->tokens.size(), 6u);
  EXPECT_EQ(answer->tokens.back().id, text::kTestImEnd);
  EXPECT_EQ(engine_->in_flight(), 0u);
}

TEST_F(EngineTest, MaxTokensCutsTheAnswer) {
  const auto [id, answer] = submit(request("hello", 3));
  run_to_idle();
  EXPECT_EQ(answer->text, "hel");
  EXPECT_EQ(answer->finish->reason, FinishReason::kLength);
  EXPECT_EQ(answer->finish->output_tokens, 3u);
}

TEST_F(EngineTest, IgnoreEosRunsToMaxTokens) {
  GenerateRequest r = request("ab", 10);
  r.ignore_eos = true;
  const auto [id, answer] = submit(std::move(r));
  run_to_idle();
  EXPECT_EQ(answer->text, "ab");
  EXPECT_EQ(answer->finish->reason, FinishReason::kLength);
  EXPECT_EQ(answer->finish->output_tokens, 10u);
}

TEST_F(EngineTest, AStopTokenEndsTheAnswerIsCountedAndHasNoText) {
  for (const bool ignore_eos : {false, true}) {
    GenerateRequest r = request("hello");
    r.stop_ids = {'x', 'l'};
    r.ignore_eos = ignore_eos;
    const auto [id, answer] = submit(std::move(r));
    run_to_idle();
    EXPECT_EQ(answer->text, "he");
    EXPECT_EQ(answer->finish->reason, FinishReason::kStop);
    EXPECT_EQ(answer->finish->output_tokens, 3u);
    EXPECT_EQ(answer->tokens.back().id, TokenId{'l'});
  }
}

TEST_F(EngineTest, WithinMinTokensNothingEndsTheAnswer) {
  struct Case {
    uint32_t min_tokens;
    const char* text;
    FinishReason reason;
    uint32_t tokens;
  };
  // The script says "abc", an end, and so on; the sampler would not have chosen the end.
  executor_ = sched::ScriptedExecutor([](const sched::Sequence& seq) -> std::optional<TokenId> {
    const uint32_t k = seq.output_length() % 4;
    return k < 3 ? 'a' + k : text::kTestImEnd;
  });
  for (const Case& c :
       {Case{3, "abc", FinishReason::kStop, 4}, Case{4, "abcabc", FinishReason::kStop, 8},
        Case{20, "abcabcabcabcabc", FinishReason::kLength, 20}}) {
    SCOPED_TRACE(c.min_tokens);
    GenerateRequest r = request("x", 20);
    r.sampling.min_tokens = c.min_tokens;
    const auto [id, answer] = submit(std::move(r));
    run_to_idle();
    EXPECT_EQ(answer->text, c.text);
    EXPECT_EQ(answer->finish->reason, c.reason);
    EXPECT_EQ(answer->finish->output_tokens, c.tokens);
  }
}

TEST_F(EngineTest, StopTokensAndStringsAreLookedAtOnlyAfterMinTokens) {
  const auto answer_of = [&](uint32_t min_tokens, std::vector<TokenId> ids,
                             std::vector<std::string> strings) {
    GenerateRequest r = request("abcabcabc");
    r.sampling.min_tokens = min_tokens;
    r.stop_ids = std::move(ids);
    r.stop = std::move(strings);
    const auto answer = submit(std::move(r)).second;
    run_to_idle();
    return answer->text;
  };
  EXPECT_EQ(answer_of(2, {'c'}, {}), "ab");
  EXPECT_EQ(answer_of(3, {'c'}, {}), "abcab");
  EXPECT_EQ(answer_of(0, {}, {"bc"}), "a");
  EXPECT_EQ(answer_of(1, {}, {"bc"}), "a");
  EXPECT_EQ(answer_of(2, {}, {"bc"}), "abca") << "its first letter was said before";
}

TEST_F(EngineTest, TheSamplerIsToldWhatEndsAnAnswerWhereItMustNotEnd) {
  std::vector<SamplingParams> seen;
  executor_ = sched::ScriptedExecutor([&](const sched::Sequence& seq) -> std::optional<TokenId> {
    seen.push_back(seq.sampling);
    return text::kTestImEnd;
  });
  const auto run = [&](uint32_t min_tokens, bool ignore_eos) {
    GenerateRequest r = request("x", 3);
    r.sampling.min_tokens = min_tokens;
    r.stop_ids = {'q'};
    r.ignore_eos = ignore_eos;
    submit(std::move(r));
    seen.clear();
    run_to_idle();
    return seen.front().ends;
  };
  EXPECT_EQ(run(2, false), (std::vector<TokenId>{'q', text::kTestImEnd}));
  EXPECT_EQ(run(2, true), (std::vector<TokenId>{'q'}));
  EXPECT_EQ(run(0, false), std::vector<TokenId>{});
}

TEST_F(EngineTest, OfNoTokensTheEngineRunsThePromptAndSaysNothing) {
  GenerateRequest r = request("hello", 0);
  r.prompt_logprobs = true;
  r.sampling.logprobs = 0;
  const auto [id, answer] = submit(std::move(r));
  run_to_idle();
  EXPECT_EQ(answer->text, "");
  EXPECT_TRUE(answer->tokens.empty());
  EXPECT_EQ(answer->finish->reason, FinishReason::kLength);
  EXPECT_EQ(answer->finish->output_tokens, 0u);
  EXPECT_EQ(answer->finish->prompt_tokens, 5u);
  ASSERT_EQ(answer->prompt.size(), 4u);
  EXPECT_EQ(answer->prompt[0].id, TokenId{'e'});
  EXPECT_EQ(metric("vllm:generation_tokens_total"), 0);
}

TEST_F(EngineTest, LogprobsOfThePromptComeOnceAndInOrderInChunksAndAfterPreemption) {
  // Two that both score and grow in a pool that holds little more than one of them.
  make({.step_tokens_max = 16, .running_max = 2, .block_count = 9},
       {.max_model_len = 512, .max_queue = 8});
  std::vector<std::shared_ptr<Recorder>> answers;
  for (const char c : {'a', 'b'}) {
    GenerateRequest r = request(std::string(60, c), 60);
    r.prompt_logprobs = true;
    r.sampling.logprobs = 0;
    r.ignore_eos = true;
    answers.push_back(submit(std::move(r)).second);
  }
  run_to_idle();
  EXPECT_GE(metric("vllm:num_preemptions_total"), 1);
  for (const auto& answer : answers) {
    ASSERT_EQ(answer->prompt.size(), 59u);
    for (size_t i = 0; i < 59; ++i) {
      EXPECT_EQ(answer->prompt[i].logprob, -static_cast<float>(i + 1) / 1000);
    }
    EXPECT_EQ(answer->tokens.size(), 60u);
  }
}

TEST_F(EngineTest, NoLogprobsOfThePromptUnlessAsked) {
  GenerateRequest r = request("hello");
  r.sampling.logprobs = 2;
  const auto [id, answer] = submit(std::move(r));
  run_to_idle();
  EXPECT_TRUE(answer->prompt.empty());
}

TEST_F(EngineTest, AStopStringAcrossTokensIsCutAndNothingOfItLeaks) {
  GenerateRequest r = request("alpha beta gamma delta");
  r.stop = {"beta gamma"};
  const auto [id, answer] = submit(std::move(r));
  run_to_idle();
  EXPECT_EQ(answer->text, "alpha ");
  EXPECT_EQ(answer->finish->reason, FinishReason::kStop);
}

TEST_F(EngineTest, AStopStringThatNeverCompletesIsGivenBackAtTheEnd) {
  GenerateRequest r = request("alpha beta");
  r.stop = {"beta gamma"};
  const auto [id, answer] = submit(std::move(r));
  run_to_idle();
  EXPECT_EQ(answer->text, "alpha beta");
}

TEST_F(EngineTest, ACharacterCutByMaxTokensIsAReplacementCharacterAndNeverHalf) {
  const std::string text = "\xe2\x82\xac\xf0\x9f\x98\x80";  // euro sign, grinning face: 3 + 4 bytes
  const std::string expected[] = {"\xef\xbf\xbd", "\xef\xbf\xbd", "\xe2\x82\xac",
                                  "\xe2\x82\xac\xef\xbf\xbd"};
  for (uint32_t n = 1; n <= 4; ++n) {
    const auto [id, answer] = submit(request(text, n));
    run_to_idle();
    EXPECT_EQ(answer->text, expected[n - 1]) << "max_tokens " << n;
  }
}

TEST_F(EngineTest, ACancelledRequestEndsWithinOneStepInEveryState) {
  const auto [running, running_answer] = submit(request(std::string(300, 'a'), 200));
  engine_->step();  // in the middle of its prompt
  std::vector<std::pair<RequestId, std::shared_ptr<Recorder>>> others;
  for (int i = 0; i < 5; ++i) others.push_back(submit(request("queued", 100)));

  engine_->cancel(running);          // prefilling
  engine_->cancel(others[4].first);  // not even drained yet
  engine_->step();
  EXPECT_EQ(running_answer->finish->reason, FinishReason::kCancelled);
  EXPECT_EQ(others[4].second->finish->reason, FinishReason::kCancelled);
  EXPECT_TRUE(others[4].second->tokens.empty());

  engine_->step();
  engine_->cancel(others[0].first);  // decoding
  engine_->step();
  EXPECT_EQ(others[0].second->finish->reason, FinishReason::kCancelled);
  run_to_idle();
  EXPECT_EQ(others[1].second->text, "queued");
  EXPECT_EQ(metric("pacer_requests_cancelled_total"), 3);
  EXPECT_EQ(metric("vllm:num_requests_running"), 0);
  EXPECT_EQ(metric("vllm:kv_cache_usage_perc"), 0);
}

TEST_F(EngineTest, CancellingAfterTheEndOrTwiceDoesNothing) {
  const auto [id, answer] = submit(request("x"));
  run_to_idle();
  engine_->cancel(id);
  engine_->cancel(id);
  run_to_idle();
  EXPECT_EQ(answer->finish->reason, FinishReason::kStop);
}

TEST_F(EngineTest, AQueuedRequestThatLeavesIsNeverRun) {
  make({.step_tokens_max = 64, .running_max = 1, .block_count = 64},
       {.max_model_len = 512, .max_queue = 8});
  const auto [first, first_answer] = submit(request("first"));
  engine_->step();
  std::vector<std::shared_ptr<Recorder>> dead;
  for (int i = 0; i < 3; ++i) {
    const auto [id, answer] = submit(request("dead request"));
    engine_->cancel(id);
    dead.push_back(answer);
  }
  const uint64_t before = executor_.tokens_run();
  run_to_idle();
  EXPECT_EQ(executor_.tokens_run() - before, 5u) << "only the first request's five decode steps";
  EXPECT_EQ(metric("vllm:prompt_tokens_total"), 5);
  EXPECT_EQ(metric("vllm:num_requests_waiting"), 0);
  for (const auto& answer : dead) EXPECT_EQ(answer->finish->reason, FinishReason::kCancelled);
}

TEST_F(EngineTest, TheQueueIsBoundedAndARefusedRequestHearsNothingMore) {
  auto recorder = std::make_shared<Recorder>();
  int accepted = 0;
  for (int i = 0; i < 200; ++i) {
    const auto id = engine_->submit(request("x"), recorder);
    if (id.ok()) {
      recorder = std::make_shared<Recorder>();
      ++accepted;
    } else {
      EXPECT_EQ(id.error().code, Code::kExhausted);
    }
  }
  EXPECT_EQ(accepted, 4 + 8);  // running + queue
  run_to_idle();
  EXPECT_FALSE(recorder->finish);
  EXPECT_TRUE(engine_->submit(request("x"), recorder).ok()) << "there is room again";
  run_to_idle();
}

TEST_F(EngineTest, WhatCanNeverFitIsRefusedAtOnceWithTheNumbers) {
  auto recorder = std::make_shared<Recorder>();
  auto refused = engine_->submit(request(std::string(500, 'a'), 13), recorder);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_EQ(refused.error().message,
            "500 prompt tokens + max_tokens 13 = 513 tokens, but the context holds 512");
  EXPECT_TRUE(engine_->submit(request(std::string(500, 'a'), 12), recorder).ok());

  make({.step_tokens_max = 64, .running_max = 4, .block_count = 4},
       {.max_model_len = 512, .max_queue = 8});
  refused = engine_->submit(request(std::string(60, 'a'), 5), recorder);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message,
            "60 prompt tokens + max_tokens 5 = 65 tokens, but the KV cache holds 64");
}

TEST_F(EngineTest, AFailedStepFailsItsRequestsAndTheNextOnesRun) {
  const auto [id, answer] = submit(request("hello"));
  engine_->step();
  executor_.before_step([] { return error(Code::kInternal, "no luck"); });
  engine_->step();
  ASSERT_TRUE(answer->finish);
  EXPECT_EQ(answer->finish->reason, FinishReason::kError);
  EXPECT_EQ(answer->finish->error->message, "no luck");
  EXPECT_EQ(answer->text, "h");

  executor_.before_step(nullptr);
  const auto [id2, answer2] = submit(request("again"));
  run_to_idle();
  EXPECT_EQ(answer2->text, "again");
  EXPECT_EQ(metric("pacer_requests_failed_total"), 1);
}

TEST_F(EngineTest, LogitsThatAreNoNumbersFailTheirOwnRequestAlone) {
  executor_ = sched::ScriptedExecutor([](const sched::Sequence& seq) -> std::optional<TokenId> {
    if (seq.tokens[0] == 'b' && seq.output_length() == 2) return std::nullopt;
    return sched::echo_prompt(text::kTestImEnd)(seq);
  });
  const auto [good, good_answer] = submit(request("good one"));
  const auto [bad, bad_answer] = submit(request("bad one"));
  run_to_idle();
  EXPECT_EQ(good_answer->text, "good one");
  EXPECT_EQ(good_answer->finish->reason, FinishReason::kStop);
  EXPECT_EQ(bad_answer->text, "ba");
  EXPECT_EQ(bad_answer->finish->reason, FinishReason::kError);
  EXPECT_EQ(bad_answer->finish->output_tokens, 2u);
  EXPECT_EQ(metric("vllm:generation_tokens_total"), 9 + 2);
  EXPECT_EQ(metric("pacer_requests_failed_total"), 1);
}

TEST_F(EngineTest, MetricsTellOfAnAnswerBeforeItsClientHasIt) {
  class Scraper final : public OutputSink {
   public:
    explicit Scraper(std::function<void()> scrape) : scrape_(std::move(scrape)) {}
    void on_output(OutputEvent event) override {
      if (event.finish) scrape_();
    }

   private:
    std::function<void()> scrape_;
  };
  bool scraped = false;
  ASSERT_TRUE(engine_
                  ->submit(request("abc"), std::make_shared<Scraper>([&] {
                             scraped = true;
                             EXPECT_EQ(metric("vllm:num_requests_running"), 0);
                             EXPECT_EQ(metric("vllm:kv_cache_usage_perc"), 0);
                             EXPECT_EQ(metric("vllm:generation_tokens_total"), 4);
                           }))
                  .ok());
  run_to_idle();
  EXPECT_TRUE(scraped);
}

TEST_F(EngineTest, ShutdownRefusesNewRequestsAndEndsOldOnesWithAnError) {
  const auto [id, answer] = submit(request("hello"));
  engine_->step();
  engine_->stop_admitting();
  const auto refused = engine_->submit(request("late"), std::make_shared<Recorder>());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  engine_.reset();
  EXPECT_EQ(answer->finish->reason, FinishReason::kError);
}

TEST_F(EngineTest, ThirtyTwoAtOnceAnswerAndAccountAsAlone) {
  make({.step_tokens_max = 40, .running_max = 32, .block_count = 64},
       {.max_model_len = 512, .max_queue = 64});
  std::vector<std::string> prompts;
  std::vector<std::shared_ptr<Recorder>> together, alone;
  for (int i = 0; i < 32; ++i)
    prompts.push_back("stream " + std::to_string(i) + std::string(static_cast<size_t>(i), '.'));
  for (const std::string& prompt : prompts) together.push_back(submit(request(prompt, 30)).second);
  run_to_idle();
  for (const std::string& prompt : prompts) {
    alone.push_back(submit(request(prompt, 30)).second);
    run_to_idle();
  }
  for (int i = 0; i < 32; ++i) {
    const size_t n = static_cast<size_t>(i);
    EXPECT_EQ(together[n]->text, alone[n]->text);
    EXPECT_EQ(together[n]->finish->reason, alone[n]->finish->reason);
    EXPECT_EQ(together[n]->finish->output_tokens, alone[n]->finish->output_tokens);
    EXPECT_EQ(together[n]->finish->prompt_tokens, alone[n]->finish->prompt_tokens);
  }
}

// Pool of 1,024 tokens, four requests that each grow to 600: all end, as alone, with few
// preemptions.
TEST_F(EngineTest, OutOfBlocksRequestsWaitTheirTurnAndAnswerAsAlone) {
  make({.step_tokens_max = 256, .running_max = 4, .block_count = 64},
       {.max_model_len = 1024, .max_queue = 8});
  std::vector<std::shared_ptr<Recorder>> answers;
  for (int i = 0; i < 4; ++i) {
    GenerateRequest r = request(std::string(100, static_cast<char>('a' + i)), 500);
    r.ignore_eos = true;
    answers.push_back(submit(std::move(r)).second);
  }
  run_to_idle();
  for (int i = 0; i < 4; ++i) {
    const auto& answer = answers[static_cast<size_t>(i)];
    EXPECT_EQ(answer->text, std::string(100, static_cast<char>('a' + i)));
    EXPECT_EQ(answer->finish->output_tokens, 500u);
  }
  EXPECT_GE(metric("vllm:num_preemptions_total"), 1);
  EXPECT_LE(metric("vllm:num_preemptions_total"), 8);
  EXPECT_EQ(metric("vllm:prompt_tokens_total"), 400) << "recomputed prompts are not counted again";
}

TEST_F(EngineTest, TimesAreMeasuredFromArrivalByTheGivenClock) {
  executor_.before_step([this]() -> Status {
    clock_.advance(milliseconds(100));
    return Ok{};
  });
  GenerateRequest r = request("abc", 3);
  clock_.advance(milliseconds(50));  // tokenising took this long
  submit(std::move(r));
  run_to_idle();
  EXPECT_NEAR(metric("vllm:time_to_first_token_seconds_sum"), 0.15, 1e-9);
  EXPECT_NEAR(metric("vllm:inter_token_latency_seconds_sum"), 0.2, 1e-9);
  EXPECT_EQ(metric("vllm:inter_token_latency_seconds_count"), 2);
  EXPECT_NEAR(metric("vllm:e2e_request_latency_seconds_sum"), 0.35, 1e-9);
  EXPECT_NEAR(metric("vllm:request_queue_time_seconds_sum"), 0.05, 1e-9);
}

TEST_F(EngineTest, StalledMeansWorkWithoutSteps) {
  clock_.advance(seconds(100));
  EXPECT_EQ(engine_->stalled_for(), Duration{}) << "idle is not stalled";
  submit(request("hello"));
  EXPECT_EQ(engine_->stalled_for(), Duration{}) << "nor is work that has just come";
  clock_.advance(seconds(7));
  EXPECT_EQ(engine_->stalled_for(), Duration(seconds(7)));
  engine_->step();
  EXPECT_EQ(engine_->stalled_for(), Duration{});
  run_to_idle();
}

// Submissions, cancellations, failures and pool sizes at random: one last event each, nothing left
// behind.
TEST_F(EngineTest, RandomHistoriesGiveEveryRequestExactlyOneLastEvent) {
  const uint64_t base = test_seed();
  for (uint64_t seed = base; seed < base + 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const auto blocks = 4 + static_cast<uint32_t>(rng.below(20));
    make({.step_tokens_max = 1 + static_cast<uint32_t>(rng.below(60)),
          .running_max = 1 + static_cast<uint32_t>(rng.below(5)),
          .block_count = blocks},
         {.max_model_len = 512, .max_queue = static_cast<uint32_t>(rng.below(10))});
    executor_.before_step([&]() -> Status {
      clock_.advance(milliseconds(rng.below(30)));
      if (rng.below(40) == 0) return error(Code::kInternal, "injected");
      return Ok{};
    });
    std::vector<std::pair<RequestId, std::shared_ptr<Recorder>>> all;
    for (int i = 0; i < 300; ++i) {
      if (rng.below(4) == 0) {
        GenerateRequest r =
            request(std::string(1 + rng.below(50), 'q'), 1 + static_cast<uint32_t>(rng.below(40)));
        r.ignore_eos = rng.below(2) == 0;
        auto recorder = std::make_shared<Recorder>();
        if (const auto id = engine_->submit(std::move(r), recorder); id.ok())
          all.emplace_back(*id, recorder);
      }
      if (rng.below(12) == 0 && !all.empty()) engine_->cancel(all[rng.below(all.size())].first);
      engine_->step();
    }
    run_to_idle();
    for (const auto& [id, recorder] : all)
      ASSERT_TRUE(recorder->finish) << static_cast<uint64_t>(id);
    EXPECT_EQ(engine_->in_flight(), 0u);
    EXPECT_EQ(metric("vllm:kv_cache_usage_perc"), 0);
    executor_.before_step(nullptr);
  }
}

TEST(OutputChannelDeathTest, EventsAfterTheLastOrNoLastEventAbort) {
  const auto two_ends = [] {
    OutputChannel channel(std::make_shared<Recorder>());
    channel.send({.text = "", .tokens = {}, .finish = Finish{}});
    channel.send({.text = "more", .tokens = {}, .finish = {}});
  };
  EXPECT_DEATH(two_ends(), "after the last");
  EXPECT_DEATH({ OutputChannel channel(std::make_shared<Recorder>()); }, "without its last event");
}

}  // namespace
}  // namespace pacer::engine
