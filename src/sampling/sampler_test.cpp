#include "sampling/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/rng.h"
#include "base/test_seed.h"

namespace pacer::sampling {
namespace {

const kernels::KernelTable& table() {
  return *kernels::supported_kernels().front();
}

// Log-probabilities of a small, known distribution, shifted as logits may be.
std::vector<float> logits_of(const std::vector<double>& probabilities, float shift = 3.0f) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)) + shift);
  return logits;
}

std::map<TokenId, double> frequencies(const std::vector<float>& logits,
                                      const SamplingParams& params, int draws) {
  Sampler sampler(table(), static_cast<uint32_t>(logits.size()));
  std::map<TokenId, double> shares;
  for (int i = 0; i < draws; ++i) {
    shares[sampler.sample(logits, params, static_cast<uint64_t>(i))->id] += 1.0 / draws;
  }
  return shares;
}

TEST(Sampler, GreedyTakesTheBestAndTheFirstAmongEquals) {
  Sampler sampler(table(), 5);
  const SamplingParams greedy{.temperature = 0};
  EXPECT_EQ(sampler.sample(std::vector<float>{0, 3, 1, 3, -2}, greedy, 0)->id, 1u);
}

TEST(Sampler, TheSameSeedAndPositionDrawTheSameTokenWhateverRanBefore) {
  const std::vector<float> logits = logits_of({0.1, 0.2, 0.3, 0.4});
  const SamplingParams params{.seed = 17};
  Sampler a(table(), 4), b(table(), 4);
  for (uint64_t position = 0; position < 50; ++position)
    (void)a.sample(logits, params, 1000 + position);
  for (uint64_t position = 0; position < 200; ++position) {
    EXPECT_EQ(a.sample(logits, params, position)->id, b.sample(logits, params, position)->id)
        << position;
  }
}

TEST(Sampler, AnotherSeedDrawsAnotherSequence) {
  const std::vector<float> logits = logits_of({0.25, 0.25, 0.25, 0.25});
  Sampler sampler(table(), 4);
  int differing = 0;
  for (uint64_t position = 0; position < 100; ++position) {
    differing += sampler.sample(logits, {.seed = 1}, position)->id !=
                 sampler.sample(logits, {.seed = 2}, position)->id;
  }
  EXPECT_GT(differing, 50);  // 75 expected
}

TEST(Sampler, DrawsFollowTheDistribution) {
  const std::vector<double> p = {0.5, 0.3, 0.15, 0.05};
  const auto shares = frequencies(logits_of(p), {.seed = 5}, 40000);
  for (TokenId id = 0; id < p.size(); ++id)
    EXPECT_NEAR(shares.at(id), p[id], 0.012) << id;  // > 4 sigma
}

TEST(Sampler, TemperatureSharpensAndFlattens) {
  const std::vector<float> logits = logits_of({0.6, 0.4});
  // p^(1/T), renormalised: T = 0.5 gives 0.36 : 0.16.
  EXPECT_NEAR(frequencies(logits, {.temperature = 0.5f, .seed = 6}, 40000).at(0), 0.36 / 0.52,
              0.012);
  EXPECT_NEAR(frequencies(logits, {.temperature = 2.0f, .seed = 6}, 40000).at(0),
              std::sqrt(0.6) / (std::sqrt(0.6) + std::sqrt(0.4)), 0.012);
}

TEST(Sampler, TopKKeepsTheKMostLikely) {
  const auto shares = frequencies(logits_of({0.1, 0.4, 0.2, 0.3}), {.top_k = 2, .seed = 7}, 20000);
  ASSERT_EQ(shares.size(), 2u);
  EXPECT_NEAR(shares.at(1), 0.4 / 0.7, 0.02);
  EXPECT_NEAR(shares.at(3), 0.3 / 0.7, 0.02);
}

TEST(Sampler, TopPKeepsTheSmallestSetThatReachesTheMass) {
  const std::vector<float> logits = logits_of({0.05, 0.5, 0.15, 0.3});
  EXPECT_EQ(frequencies(logits, {.top_p = 0.49f, .seed = 8}, 3000).size(), 1u);
  EXPECT_EQ(frequencies(logits, {.top_p = 0.51f, .seed = 8}, 3000).size(), 2u);
  EXPECT_EQ(frequencies(logits, {.top_p = 0.79f, .seed = 8}, 3000).size(), 2u);
  EXPECT_EQ(frequencies(logits, {.top_p = 0.81f, .seed = 8}, 3000).size(), 3u);
  EXPECT_EQ(frequencies(logits, {.top_p = 0.96f, .seed = 8}, 9000).size(), 4u);
}

TEST(Sampler, TopPCountsTheMassThatTopKLeft) {
  // After top_k = 2 the two weigh 5/8 and 3/8, so 0.6 of that mass is the first alone.
  const std::vector<float> logits = logits_of({0.05, 0.5, 0.15, 0.3});
  EXPECT_EQ(frequencies(logits, {.top_k = 2, .top_p = 0.6f, .seed = 9}, 3000).size(), 1u);
  EXPECT_EQ(frequencies(logits, {.top_k = 2, .top_p = 0.65f, .seed = 9}, 3000).size(), 2u);
}

TEST(Sampler, MinPIsRelativeToTheBest) {
  const std::vector<float> logits = logits_of({0.5, 0.26, 0.2, 0.04});
  EXPECT_EQ(frequencies(logits, {.min_p = 0.51f, .seed = 10}, 3000).size(), 2u);
  EXPECT_EQ(frequencies(logits, {.min_p = 0.39f, .seed = 10}, 3000).size(), 3u);
  EXPECT_EQ(frequencies(logits, {.min_p = 1.0f, .seed = 10}, 300).size(), 1u);
}

TEST(Sampler, TopPAgreesWithAFullSortOnManyRandomDistributions) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Rng rng(seed);
  for (int round = 0; round < 50; ++round) {
    const uint32_t n = 1 + static_cast<uint32_t>(rng.below(300));
    std::vector<double> p(n);
    double total = 0;
    for (double& x : p) total += x = std::exp(8 * rng.uniform());
    for (double& x : p) x /= total;
    const float top_p = 0.05f + 0.9f * static_cast<float>(rng.uniform());

    std::vector<TokenId> order(n);
    for (TokenId id = 0; id < n; ++id) order[id] = id;
    std::sort(order.begin(), order.end(), [&](TokenId a, TokenId b) { return p[a] > p[b]; });
    std::set<TokenId> nucleus;
    double mass = 0;
    for (const TokenId id : order) {
      if (mass >= top_p + 1e-4)
        break;  // a hair more: floats at the very edge may fall on either side
      nucleus.insert(id);
      mass += p[id];
    }
    for (const auto& [id, share] : frequencies(logits_of(p), {.top_p = top_p, .seed = seed}, 300)) {
      ASSERT_TRUE(nucleus.contains(id))
          << "round " << round << " token " << id << " top_p " << top_p;
    }
  }
}

TEST(Sampler, LogprobsAreOfTheModelBeforeTemperature) {
  Sampler sampler(table(), 4);
  const std::vector<double> p = {0.5, 0.3, 0.15, 0.05};
  const SampledToken token =
      *sampler.sample(logits_of(p), {.temperature = 0.1f, .seed = 3, .logprobs = 2u}, 0);
  EXPECT_NEAR(token.logprob, std::log(p[token.id]), 1e-5);
  ASSERT_EQ(token.top.size(), 2u);
  EXPECT_EQ(token.top[0].id, 0u);
  EXPECT_NEAR(token.top[0].logprob, std::log(0.5), 1e-5);
  EXPECT_EQ(token.top[1].id, 1u);
  EXPECT_NEAR(token.top[1].logprob, std::log(0.3), 1e-5);
}

TEST(Sampler, NoLogprobsUnlessAsked) {
  Sampler sampler(table(), 2);
  EXPECT_TRUE(sampler.sample(std::vector<float>{0, 1}, {}, 0)->top.empty());
}

// --- what a request wants done to its logits ---

// The distribution that a request draws from, by brute force: vLLM's rules written out over the
// whole vocabulary.
std::vector<double> expected_logits(std::vector<float> logits, const SamplingParams& params,
                                    const std::vector<TokenId>& tokens, uint32_t prompt_length) {
  std::vector<double> out(logits.begin(), logits.end());
  for (const LogitBias& bias : params.logit_bias) out[bias.id] += bias.bias;
  for (TokenId id = 0; id < out.size(); ++id) {
    const auto begin = tokens.begin();
    const auto said = std::count(begin + prompt_length, tokens.end(), id);
    const auto asked = std::count(begin, begin + prompt_length, id);
    if (said + asked > 0) {
      out[id] =
          out[id] > 0 ? out[id] / params.repetition_penalty : out[id] * params.repetition_penalty;
    }
    out[id] -= params.frequency_penalty * static_cast<double>(said);
    if (said > 0) out[id] -= params.presence_penalty;
  }
  if (tokens.size() - prompt_length < params.min_tokens) {
    for (const TokenId id : params.ends) out[id] = -HUGE_VAL;
  }
  return out;
}

TEST(SamplerEdits, GreedyTakesTheBestOfWhatVllmsRulesGive) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Rng rng(seed);
  constexpr uint32_t kVocabulary = 40;
  Sampler sampler(table(), kVocabulary);
  int moved = 0;
  for (int round = 0; round < 500; ++round) {
    std::vector<float> logits(kVocabulary);
    for (float& x : logits) x = 6 * static_cast<float>(rng.uniform()) - 3;
    std::vector<TokenId> tokens(1 + rng.below(60));
    for (TokenId& id : tokens) id = static_cast<TokenId>(rng.below(kVocabulary));
    const auto prompt_length = static_cast<uint32_t>(rng.below(tokens.size() + 1));
    SamplingParams params{.temperature = 0};
    if (rng.below(2)) params.repetition_penalty = 0.5f + static_cast<float>(rng.uniform());
    if (rng.below(2)) params.frequency_penalty = 2 * static_cast<float>(rng.uniform()) - 1;
    if (rng.below(2)) params.presence_penalty = 4 * static_cast<float>(rng.uniform()) - 2;
    if (rng.below(2)) params.logit_bias = {{3, 2.0f}, {7, -100.0f}};
    if (rng.below(2)) params.min_tokens = static_cast<uint32_t>(rng.below(40));
    params.ends = {static_cast<TokenId>(rng.below(kVocabulary)), 7};

    const auto expected = expected_logits(logits, params, tokens, prompt_length);
    const std::vector<float> before = logits;
    const auto token = sampler.sample(logits, params, tokens, prompt_length);
    const double best = *std::max_element(expected.begin(), expected.end());
    EXPECT_NEAR(expected[token->id], best, 1e-5) << "round " << round;
    EXPECT_EQ(logits, before) << "the logits are left as they were";
    moved += before[token->id] < *std::max_element(before.begin(), before.end());
  }
  EXPECT_GT(moved, 100) << "the edits decided";
}

TEST(SamplerEdits, DrawsFollowTheEditedDistributionAndLogprobsTheModels) {
  std::vector<float> logits = logits_of({0.5, 0.3, 0.2}, /*shift=*/0);
  Sampler sampler(table(), 3);
  SamplingParams params{.seed = 4, .logit_bias = {{2, std::log(4.0f)}}, .logprobs = 3u};
  double thirds = 0;
  constexpr int kDraws = 20000;
  std::vector<TokenId> tokens = {0};
  for (int i = 0; i < kDraws; ++i) {
    tokens.push_back(0);
    const SampledToken token = *sampler.sample(logits, params, tokens, 1);
    thirds += token.id == 2;
    ASSERT_NEAR(token.logprob, std::log(token.id == 0 ? 0.5 : token.id == 1 ? 0.3 : 0.2), 1e-5);
    ASSERT_EQ(token.top[0].id, 0u);
  }
  EXPECT_NEAR(thirds / kDraws, 0.8 / 1.6, 0.015);
}

TEST(SamplerEdits, PresenceCountsOnceFrequencyEachTimeAndNeitherThePrompt) {
  Sampler sampler(table(), 2);
  const auto choice = [&](SamplingParams params, std::vector<TokenId> tokens, uint32_t prompt) {
    std::vector<float> logits = {1.0f, 0.0f};
    params.temperature = 0;
    return sampler.sample(logits, params, tokens, prompt)->id;
  };
  const SamplingParams presence{.presence_penalty = 0.9f};
  EXPECT_EQ(choice(presence, {1, 0, 0, 0}, 1), 0u) << "0.1 is left";
  EXPECT_EQ(choice({.presence_penalty = 1.1f}, {1, 0}, 1), 1u);
  EXPECT_EQ(choice({.presence_penalty = 1.1f}, {1, 0}, 2), 0u) << "only the prompt has it";
  const SamplingParams frequency{.frequency_penalty = 0.4f};
  EXPECT_EQ(choice(frequency, {1, 0, 0}, 1), 0u) << "1 - 0.8";
  EXPECT_EQ(choice(frequency, {1, 0, 0, 0}, 1), 1u) << "1 - 1.2";
}

TEST(SamplerEdits, RepetitionPenaltyDividesWhatIsPositiveAndMultipliesWhatIsNegative) {
  Sampler sampler(table(), 2);
  const auto choice = [&](std::vector<float> logits) {
    // Token 0 is in the prompt alone, which counts.
    const std::vector<TokenId> tokens = {0};
    return sampler.sample(logits, {.temperature = 0, .repetition_penalty = 2.0f}, tokens, 1)->id;
  };
  EXPECT_EQ(choice({3.0f, 1.4f}), 0u);
  EXPECT_EQ(choice({3.0f, 1.6f}), 1u);
  EXPECT_EQ(choice({-1.0f, -2.1f}), 0u);
  EXPECT_EQ(choice({-1.0f, -1.9f}), 1u);
}

TEST(SamplerEdits, NoEndBeforeMinTokensAtAnyTemperature) {
  std::vector<float> logits = {20.0f, 0.0f, 19.0f, -1.0f};
  Sampler sampler(table(), 4);
  for (const float temperature : {0.0f, 0.7f, 2.0f}) {
    const SamplingParams params{
        .temperature = temperature, .seed = 3, .min_tokens = 3, .ends = {0, 2}};
    std::vector<TokenId> tokens = {1, 1};
    for (int i = 0; i < 3; ++i) {
      const TokenId id = sampler.sample(logits, params, tokens, 2)->id;
      EXPECT_TRUE(id == 1 || id == 3) << i;
      tokens.push_back(id);
    }
    const TokenId end = sampler.sample(logits, params, tokens, 2)->id;
    EXPECT_TRUE(end == 0 || end == 2);
  }
}

TEST(SamplerEdits, TheDrawIsThatOfTheSameSeedAndPositionWithoutEdits) {
  std::vector<float> logits = logits_of({0.1, 0.2, 0.3, 0.4});
  Sampler sampler(table(), 4);
  std::vector<TokenId> tokens = {0, 1};
  for (uint64_t position = 0; position < 100; ++position) {
    // A bias for all alike changes no probability.
    const SamplingParams same{.seed = 17, .logit_bias = {{0, 2}, {1, 2}, {2, 2}, {3, 2}}};
    const TokenId id = sampler.sample(logits, same, tokens, 2)->id;
    EXPECT_EQ(id, sampler.sample(std::span<const float>(logits), {.seed = 17}, position)->id);
    tokens.push_back(id);
  }
}

TEST(SamplerEdits, AVocabularyOfEndsAloneGivesNoTokenBeforeMinTokens) {
  std::vector<float> logits = {1.0f, 2.0f};
  Sampler sampler(table(), 2);
  const std::vector<TokenId> tokens = {0};
  const SamplingParams params{.min_tokens = 1, .ends = {0, 1}};
  EXPECT_FALSE(sampler.sample(logits, params, tokens, 1).has_value());
  EXPECT_EQ(logits, (std::vector<float>{1.0f, 2.0f}));
}

TEST(Sampler, ScoresAGivenTokenByTheModelsDistribution) {
  Sampler sampler(table(), 4);
  const std::vector<float> logits = logits_of({0.5, 0.3, 0.15, 0.05});
  const SampledToken token = *sampler.score(logits, 3, 1);
  EXPECT_EQ(token.id, 3u);
  EXPECT_NEAR(token.logprob, std::log(0.05), 1e-5);
  ASSERT_EQ(token.top.size(), 1u);
  EXPECT_EQ(token.top[0].id, 0u);
  EXPECT_FALSE(sampler.score(std::vector<float>(4, std::nanf("")), 0, 0).has_value());
}

TEST(SamplerDeathTest, EditsOfLogitsThatMayNotBeWrittenAbort) {
  Sampler sampler(table(), 2);
  const std::vector<float> logits = {0, 1};
  EXPECT_DEATH((void)sampler.sample(logits, {.presence_penalty = 1.0f}, 0), "change logits");
}

TEST(Sampler, LogitsThatAreNoNumbersGiveNoTokenWhateverTheParameters) {
  const float nan = std::nanf(""), inf = HUGE_VALF;
  for (const std::vector<float>& logits :
       {std::vector<float>{nan, nan, nan}, {1, inf, 2}, {-inf, -inf, -inf}}) {
    for (const SamplingParams& params :
         {SamplingParams{.temperature = 0}, SamplingParams{}, SamplingParams{.top_k = 2},
          SamplingParams{.top_p = 0.5f}, SamplingParams{.min_p = 0.1f}}) {
      Sampler sampler(table(), 3);
      EXPECT_FALSE(sampler.sample(logits, params, 0).has_value());
    }
  }
}

TEST(TopLogprobs, OrdersByValueThenIdAndTakesNoMoreThanThereAre) {
  const std::vector<float> logits = {1, 5, 5, 0};
  const auto top = top_logprobs(logits, 0, 3);
  ASSERT_EQ(top.size(), 3u);
  EXPECT_EQ(top[0].id, 1u);
  EXPECT_EQ(top[1].id, 2u);
  EXPECT_EQ(top[2].id, 0u);
  EXPECT_EQ(top_logprobs(logits, 0, 100).size(), 4u);
  EXPECT_TRUE(top_logprobs(logits, 0, 0).empty());
}

}  // namespace
}  // namespace pacer::sampling
