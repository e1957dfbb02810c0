// The scheduler and its fcfs policy, driven by hand: what is planned, preempted, finished. No
// model, no threads.
#include "sched/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/rng.h"
#include "base/test_seed.h"

namespace pacer::sched {
namespace {

constexpr TimePoint kStart{};

Sequence make_sequence(uint64_t id, uint32_t prompt, uint32_t output, TimePoint arrived = kStart) {
  Sequence seq;
  seq.id = SeqId{id};
  seq.tokens.assign(prompt, 7);
  seq.prompt_length = prompt;
  seq.length_max = prompt + output;
  seq.arrived = arrived;
  return seq;
}

Scheduler make_scheduler(SchedulerConfig config) {
  return Scheduler(config, *make_policy("fcfs"));
}

// Runs one step: every sampled token is 9; sequences that reached their length are finished.
Scheduler::Step run_step(Scheduler& scheduler) {
  Scheduler::Step step = scheduler.plan(kStart);
  StepResult result;
  for (const StepItem& item : step.items) {
    if (item.sample) result.tokens.emplace_back(SampledToken{.id = 9, .logprob = 0, .top = {}});
    result.scored.resize(result.scored.size() + item.score_count);
  }
  std::vector<SeqId> ids;
  for (const StepItem& item : step.items) ids.push_back(item.sequence->id);
  scheduler.commit(step, result);
  for (const SeqId id : ids) {
    if (scheduler.find(id)->length() == scheduler.find(id)->length_max) scheduler.finish(id);
  }
  return step;
}

uint32_t tokens_of(const Scheduler::Step& step) {
  uint32_t total = 0;
  for (const StepItem& item : step.items) total += item.count;
  return total;
}

TEST(Scheduler, APromptRunsWholeThenOneTokenAtATime) {
  Scheduler scheduler = make_scheduler({.step_tokens_max = 64, .running_max = 4, .block_count = 8});
  scheduler.add(make_sequence(1, 20, 3));

  Scheduler::Step step = scheduler.plan(kStart);
  ASSERT_EQ(step.items.size(), 1u);
  EXPECT_EQ(step.items[0].first, 0u);
  EXPECT_EQ(step.items[0].count, 20u);
  EXPECT_TRUE(step.items[0].sample);
  EXPECT_EQ(step.first_scheduled, std::vector<SeqId>{SeqId{1}});
  scheduler.commit(step, {.tokens = {SampledToken{.id = 9, .logprob = 0, .top = {}}}});

  step = scheduler.plan(kStart);
  EXPECT_EQ(step.items[0].first, 20u);
  EXPECT_EQ(step.items[0].count, 1u);
  EXPECT_TRUE(step.first_scheduled.empty());
}

TEST(Scheduler, ALongPromptIsChunkedToTheStepBudgetAndSamplesOnlyAtItsEnd) {
  Scheduler scheduler = make_scheduler({.step_tokens_max = 16, .running_max = 4, .block_count = 8});
  scheduler.add(make_sequence(1, 40, 2));
  for (const auto& [count, sample] : {std::pair{16u, false}, {16u, false}, {8u, true}}) {
    const Scheduler::Step step = run_step(scheduler);
    EXPECT_EQ(step.items.at(0).count, count);
    EXPECT_EQ(step.items.at(0).sample, sample);
  }
}

TEST(Scheduler, PromptTokensAreScoredByTheStepThatRunsTheOneBeforeAndTheFirstNever) {
  Scheduler scheduler = make_scheduler({.step_tokens_max = 16, .running_max = 4, .block_count = 8});
  Sequence seq = make_sequence(1, 20, 2);
  seq.scores_prompt = true;
  scheduler.add(std::move(seq));
  // A scored token counts as two.
  for (const auto& [first, count, score_first, score_count] :
       {std::array{0u, 8u, 1u, 8u}, {8u, 8u, 9u, 8u}, {16u, 4u, 17u, 3u}, {20u, 1u, 0u, 0u}}) {
    const Scheduler::Step step = run_step(scheduler);
    const StepItem& item = step.items.at(0);
    EXPECT_EQ(item.first, first);
    EXPECT_EQ(item.count, count);
    EXPECT_EQ(item.score_first, score_first);
    EXPECT_EQ(item.score_count, score_count);
  }
}

TEST(Scheduler, APromptOfOneTokenHasNothingToScore) {
  Scheduler scheduler = make_scheduler({.step_tokens_max = 16, .running_max = 4, .block_count = 8});
  Sequence seq = make_sequence(1, 1, 2);
  seq.scores_prompt = true;
  scheduler.add(std::move(seq));
  EXPECT_EQ(run_step(scheduler).items.at(0).score_count, 0u);
}

TEST(Scheduler, RunningStreamsGetTheirTokenBesideAChunk) {
  Scheduler scheduler =
      make_scheduler({.step_tokens_max = 16, .running_max = 4, .block_count = 16});
  scheduler.add(make_sequence(1, 8, 20));
  run_step(scheduler);
  scheduler.add(make_sequence(2, 60, 2));
  const Scheduler::Step step = run_step(scheduler);
  ASSERT_EQ(step.items.size(), 2u);
  EXPECT_EQ(step.items[0].count, 1u);   // the stream goes on
  EXPECT_EQ(step.items[1].count, 15u);  // the prompt gets the rest
}

TEST(Scheduler, NobodyOvertakesTheOneAtTheHead) {
  Scheduler scheduler =
      make_scheduler({.step_tokens_max = 256, .running_max = 4, .block_count = 8});
  scheduler.add(make_sequence(1, 60, 10));  // 4 blocks now
  run_step(scheduler);
  scheduler.add(make_sequence(2, 80, 10));  // 6 blocks for prompt and first token: 4 are free
  scheduler.add(make_sequence(3, 10, 2));   // would fit, but came later
  run_step(scheduler);
  EXPECT_EQ(scheduler.running_count(), 1u);
  EXPECT_EQ(scheduler.waiting_count(), 2u);
}

TEST(Scheduler, ArrivalDecidesTheOrderNotTheId) {
  Scheduler scheduler =
      make_scheduler({.step_tokens_max = 256, .running_max = 1, .block_count = 8});
  scheduler.add(make_sequence(1, 10, 2, kStart + std::chrono::seconds(2)));
  scheduler.add(make_sequence(2, 10, 2, kStart + std::chrono::seconds(1)));
  EXPECT_EQ(run_step(scheduler).items.at(0).sequence->id, SeqId{2});
}

TEST(Scheduler, NoMoreRunThanAllowed) {
  Scheduler scheduler =
      make_scheduler({.step_tokens_max = 256, .running_max = 3, .block_count = 64});
  for (uint64_t id = 1; id <= 8; ++id) scheduler.add(make_sequence(id, 10, 4));
  run_step(scheduler);
  EXPECT_EQ(scheduler.running_count(), 3u);
  EXPECT_EQ(scheduler.waiting_count(), 5u);
}

TEST(Scheduler, OutOfBlocksTheYoungestGivesWayAndIsComputedAgain) {
  Scheduler scheduler =
      make_scheduler({.step_tokens_max = 256, .running_max = 4, .block_count = 5});
  scheduler.add(make_sequence(1, 30, 20));
  scheduler.add(make_sequence(2, 30, 20));  // two blocks each; the pool has one more
  uint32_t preempted = 0;
  bool recomputed = false;
  for (int i = 0; i < 60 && scheduler.running_count() + scheduler.waiting_count() > 0; ++i) {
    const Scheduler::Step step = scheduler.plan(kStart);
    preempted += step.preempted;
    if (step.preempted > 0) {
      EXPECT_EQ(scheduler.find(SeqId{2})->state, SeqState::kWaiting);
      EXPECT_EQ(scheduler.find(SeqId{2})->computed, 0u);
      EXPECT_GT(scheduler.find(SeqId{2})->output_length(), 0u) << "its tokens are kept";
    }
    StepResult result;
    std::vector<SeqId> ids;
    for (const StepItem& item : step.items) {
      recomputed |= item.sequence->id == SeqId{2} && item.first == 0 && item.count > 30;
      if (item.sample) result.tokens.emplace_back(SampledToken{.id = 9, .logprob = 0, .top = {}});
      ids.push_back(item.sequence->id);
    }
    scheduler.commit(step, result);
    for (const SeqId id : ids) {
      if (scheduler.find(id)->length() == scheduler.find(id)->length_max) scheduler.finish(id);
    }
  }
  EXPECT_EQ(preempted, 1u);
  EXPECT_TRUE(recomputed);
  EXPECT_EQ(scheduler.running_count() + scheduler.waiting_count(), 0u);
}

TEST(Scheduler, FinishFreesBlocksInEveryState) {
  Scheduler scheduler = make_scheduler({.step_tokens_max = 16, .running_max = 1, .block_count = 8});
  scheduler.add(make_sequence(1, 40, 4));
  scheduler.add(make_sequence(2, 10, 4));
  run_step(scheduler);  // 1 is in the middle of its prompt, 2 waits
  EXPECT_GT(scheduler.blocks_used(), 0u);
  EXPECT_TRUE(scheduler.finish(SeqId{1}));
  EXPECT_EQ(scheduler.blocks_used(), 0u);
  EXPECT_TRUE(scheduler.finish(SeqId{2}));
  EXPECT_FALSE(scheduler.finish(SeqId{2}));
}

TEST(Scheduler, ARequestThatCanNeverFitIsKnownBeforehand) {
  Scheduler scheduler = make_scheduler({.step_tokens_max = 16, .running_max = 1, .block_count = 4});
  EXPECT_TRUE(scheduler.fits(64));
  EXPECT_FALSE(scheduler.fits(65));
}

TEST(SchedulerDeathTest, AddingWhatCannotFitOrTwiceAborts) {
  Scheduler scheduler = make_scheduler({.step_tokens_max = 16, .running_max = 1, .block_count = 4});
  EXPECT_DEATH(scheduler.add(make_sequence(1, 60, 5)), "cannot fit");
  scheduler.add(make_sequence(1, 10, 5));
  EXPECT_DEATH(scheduler.add(make_sequence(1, 10, 5)), "added twice");
}

// A policy that breaks a limit is caught where its plan is applied.
class OneItemPolicy final : public Policy {
 public:
  explicit OneItemPolicy(StepPlan plan) : plan_(std::move(plan)) {}
  StepPlan propose(const SchedView&) override { return plan_; }

 private:
  StepPlan plan_;
};

TEST(SchedulerDeathTest, APlanBeyondItsLimitsAborts) {
  const auto with_plan = [](StepPlan plan) {
    Scheduler scheduler({.step_tokens_max = 16, .running_max = 1, .block_count = 4},
                        std::make_unique<OneItemPolicy>(std::move(plan)));
    scheduler.add(make_sequence(1, 10, 5));
    (void)scheduler.plan(kStart);
  };
  EXPECT_DEATH(with_plan({.preempt = {}, .items = {{SeqId{1}, 17}}}), "17 tokens");
  EXPECT_DEATH(with_plan({.preempt = {}, .items = {{SeqId{1}, 11}}}), "10 pending");
  EXPECT_DEATH(with_plan({.preempt = {}, .items = {}}), "nothing planned");
  EXPECT_DEATH(with_plan({.preempt = {SeqId{1}}, .items = {{SeqId{1}, 4}}}), "does not run");
}

// Four sequences that each grow far beyond their share of the pool: all end, with few preemptions.
TEST(Scheduler, SequencesThatOutgrowThePoolAllFinishWithoutThrashing) {
  Scheduler scheduler =
      make_scheduler({.step_tokens_max = 256, .running_max = 4, .block_count = 64});
  for (uint64_t id = 1; id <= 4; ++id) scheduler.add(make_sequence(id, 100, 500));
  uint32_t preempted = 0, steps = 0;
  while (scheduler.running_count() + scheduler.waiting_count() > 0) {
    preempted += run_step(scheduler).preempted;
    ASSERT_LT(++steps, 5000u) << "livelock";
  }
  EXPECT_GE(preempted, 1u);
  EXPECT_LE(preempted, 8u);
}

// Any mix of lengths, arrivals, cancellations and pool sizes: every step moves someone, and all
// come to an end.
TEST(Scheduler, RandomHistoriesKeepEveryInvariantAndEnd) {
  const uint64_t base_seed = test_seed();
  for (uint64_t seed = base_seed; seed < base_seed + 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const SchedulerConfig config{.step_tokens_max = 1 + static_cast<uint32_t>(rng.below(80)),
                                 .running_max = 1 + static_cast<uint32_t>(rng.below(6)),
                                 .block_count = 3 + static_cast<uint32_t>(rng.below(30))};
    Scheduler scheduler = make_scheduler(config);
    uint64_t next_id = 1;
    uint32_t steps = 0;
    while (next_id <= 30 || scheduler.running_count() + scheduler.waiting_count() > 0) {
      if (next_id <= 30 && rng.below(3) == 0) {
        const auto prompt = 1 + static_cast<uint32_t>(rng.below(60));
        const auto output = 1 + static_cast<uint32_t>(rng.below(40));
        Sequence seq =
            make_sequence(next_id, prompt, output, kStart + std::chrono::seconds(rng.below(4)));
        if (scheduler.fits(seq.length_max)) scheduler.add(std::move(seq));
        ++next_id;
      }
      if (rng.below(15) == 0) scheduler.finish(SeqId{1 + rng.below(next_id)});
      const bool busy = scheduler.running_count() + scheduler.waiting_count() > 0;
      const Scheduler::Step step = run_step(scheduler);
      ASSERT_EQ(step.empty(), !busy);
      ASSERT_LE(tokens_of(step), config.step_tokens_max);
      ASSERT_LE(scheduler.running_count(), config.running_max);
      ASSERT_LT(++steps, 200000u) << "livelock";
    }
    EXPECT_EQ(scheduler.blocks_used(), 0u);
  }
}

// However small the pool and the steps: each prompt token is scored once, in order, with the one
// before it in the same item.
TEST(Scheduler, EveryPromptTokenIsScoredOnceWhateverIsPreempted) {
  const uint64_t base_seed = test_seed();
  uint32_t preempted = 0;
  for (uint64_t seed = base_seed; seed < base_seed + 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Rng rng(seed);
    const SchedulerConfig config{.step_tokens_max = 1 + static_cast<uint32_t>(rng.below(60)),
                                 .running_max = 2 + static_cast<uint32_t>(rng.below(5)),
                                 .block_count = 6 + static_cast<uint32_t>(rng.below(10))};
    Scheduler scheduler = make_scheduler(config);
    std::map<SeqId, uint32_t> scored, prompts;
    for (uint64_t id = 1; id <= 8; ++id) {
      const auto prompt = 1 + static_cast<uint32_t>(rng.below(60));
      Sequence seq = make_sequence(id, prompt, 1 + static_cast<uint32_t>(rng.below(30)));
      seq.scores_prompt = rng.below(4) > 0;
      prompts[seq.id] = seq.scores_prompt ? prompt : 1;
      scored[seq.id] = 1;
      scheduler.add(std::move(seq));
    }
    uint32_t steps = 0;
    while (scheduler.running_count() + scheduler.waiting_count() > 0) {
      const Scheduler::Step step = scheduler.plan(kStart);
      preempted += step.preempted;
      StepResult result;
      std::vector<SeqId> ids;
      for (const StepItem& item : step.items) {
        ids.push_back(item.sequence->id);
        if (item.sample) result.tokens.emplace_back(SampledToken{.id = 9});
        result.scored.resize(result.scored.size() + item.score_count);
        if (item.score_count == 0) continue;
        ASSERT_EQ(item.score_first, scored[item.sequence->id]);
        ASSERT_GT(item.score_first, item.first);
        ASSERT_LE(item.score_first + item.score_count, item.first + item.count + 1);
        scored[item.sequence->id] += item.score_count;
      }
      ASSERT_LE(tokens_of(step), config.step_tokens_max);
      scheduler.commit(step, result);
      for (const SeqId id : ids) {
        if (scheduler.find(id)->length() == scheduler.find(id)->length_max) scheduler.finish(id);
      }
      ASSERT_LT(++steps, 20000u) << "livelock";
    }
    EXPECT_EQ(scored, prompts);
  }
  EXPECT_GT(preempted, 0u) << "the pools were small enough to try it";
}

TEST(Policies, AnUnknownNameIsRefusedWithTheListOfKnownOnes) {
  const auto policy = make_policy("lifo");
  ASSERT_FALSE(policy.ok());
  EXPECT_EQ(policy.error().message, "policy 'lifo' is unknown; there is: fcfs");
}

}  // namespace
}  // namespace pacer::sched
