#include "sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/rng.h"

namespace pacer::sampling {

Sampler::Sampler(const kernels::KernelTable& kernels, uint32_t vocabulary_size)
    : kernels_(kernels), weights_(vocabulary_size) {
  candidates_.reserve(vocabulary_size);
}

std::optional<SampledToken> Sampler::sample(std::span<float> logits, const SamplingParams& params,
                                            std::span<const TokenId> tokens,
                                            uint32_t prompt_length) {
  CHECK(logits.size() == weights_.size() && prompt_length <= tokens.size(),
        "{} logits for a vocabulary of {}; a prompt of {} in {} tokens", logits.size(),
        weights_.size(), prompt_length, tokens.size());
  edit(logits, params, tokens, prompt_length);
  const std::optional<TokenId> id = choose(logits, params, tokens.size() - prompt_length);
  for (; !edits_.empty(); edits_.pop_back()) logits[edits_.back().id] = edits_.back().logit;
  if (!id || !params.logprobs) return id ? std::optional(SampledToken{.id = *id}) : std::nullopt;
  return score(logits, *id, *params.logprobs);
}

std::optional<SampledToken> Sampler::sample(std::span<const float> logits,
                                            const SamplingParams& params, uint64_t output_index) {
  CHECK(logits.size() == weights_.size(), "{} logits for a vocabulary of {}", logits.size(),
        weights_.size());
  CHECK(params.logit_bias.empty() && !params.penalises() && params.min_tokens == 0,
        "parameters that change logits, of which a copy would be needed");
  const std::optional<TokenId> id = choose(logits, params, output_index);
  if (!id || !params.logprobs) return id ? std::optional(SampledToken{.id = *id}) : std::nullopt;
  return score(logits, *id, *params.logprobs);
}

std::optional<SampledToken> Sampler::score(std::span<const float> logits, TokenId token,
                                           uint32_t top_count) const {
  CHECK(token < logits.size(), "token {} of {} logits", token, logits.size());
  const float log_sum = kernels_.log_sum_exp(logits.data(), static_cast<uint32_t>(logits.size()));
  if (!std::isfinite(log_sum)) return std::nullopt;
  return SampledToken{.id = token,
                      .logprob = logits[token] - log_sum,
                      .top = top_logprobs(logits, log_sum, top_count)};
}

void Sampler::edit(std::span<float> logits, const SamplingParams& params,
                   std::span<const TokenId> tokens, uint32_t prompt_length) {
  for (const LogitBias& bias : params.logit_bias) {
    edits_.push_back({bias.id, logits[bias.id]});
    logits[bias.id] += bias.bias;
  }
  if (params.penalises()) penalise(logits, params, tokens, prompt_length);
  if (tokens.size() - prompt_length >= params.min_tokens) return;
  for (const TokenId id : params.ends) {
    edits_.push_back({id, logits[id]});
    logits[id] = -std::numeric_limits<float>::infinity();
  }
}

// vLLM's rules: what occurs in prompt or answer has its logit divided by repetition_penalty, or
// multiplied where it is negative; then what the answer has loses frequency_penalty for each time,
// and presence_penalty once.
void Sampler::penalise(std::span<float> logits, const SamplingParams& params,
                       std::span<const TokenId> tokens, uint32_t prompt_length) {
  occurrences_.resize(logits.size());
  const auto output = tokens.subspan(prompt_length);
  for (const TokenId id : output) occurrences_[id] += 1;

  const auto affected = params.repetition_penalty == 1.0f ? output : tokens;
  constexpr uint32_t kDone = UINT32_MAX;  // its logit is changed already
  for (const TokenId id : affected) {
    const uint32_t count = std::exchange(occurrences_[id], kDone);
    if (count == kDone) continue;
    float& logit = logits[id];
    edits_.push_back({id, logit});
    logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    if (count == 0) continue;  // only in the prompt
    logit -= params.frequency_penalty * static_cast<float>(count) + params.presence_penalty;
  }
  for (const TokenId id : affected) occurrences_[id] = 0;
}

std::optional<TokenId> Sampler::choose(std::span<const float> logits, const SamplingParams& params,
                                       uint64_t output_index) {
  const auto n = static_cast<uint32_t>(logits.size());
  const TokenId greedy = kernels_.arg_max(logits.data(), n);
  const float best = logits[greedy];
  if (!std::isfinite(best)) return std::nullopt;
  if (params.temperature <= 0) return greedy;
  weight_total_ =
      kernels_.exp_weights(logits.data(), n, best, 1.0f / params.temperature, weights_.data());
  if (!std::isfinite(weight_total_)) return std::nullopt;
  return draw(params, random_uniform(params.seed, output_index));
}

TokenId Sampler::draw(const SamplingParams& params, double uniform) {
  const bool truncated = params.top_k > 0 || params.top_p < 1 || params.min_p > 0;
  return truncated ? draw_truncated(params, uniform) : draw_from_all(uniform);
}

TokenId Sampler::draw_from_all(double uniform) const {
  double left = uniform * weight_total_;
  TokenId last = 0;
  for (TokenId id = 0; id < weights_.size(); ++id) {
    if (weights_[id] <= 0) continue;
    last = id;
    left -= weights_[id];
    if (left < 0) break;
  }
  return last;  // the last possible one if rounding left a rest
}

TokenId Sampler::draw_truncated(const SamplingParams& params, double uniform) {
  collect_candidates(params);
  CHECK(!candidates_.empty(), "no candidate left of {} (min_p {}, top_k {}, top_p {})",
        weights_.size(), params.min_p, params.top_k, params.top_p);
  double total = 0;
  for (const Candidate& candidate : candidates_) total += candidate.weight;
  double left = uniform * total;
  for (const Candidate& candidate : candidates_) {
    left -= candidate.weight;
    if (left < 0) return candidate.id;
  }
  return candidates_.back().id;
}

// Fills candidates_ with what the parameters allow, most likely first.
void Sampler::collect_candidates(const SamplingParams& params) {
  candidates_.clear();
  for (TokenId id = 0; id < weights_.size(); ++id) {
    if (weights_[id] >= params.min_p && weights_[id] > 0) candidates_.push_back({id, weights_[id]});
  }

  const auto likelier = [](const Candidate& a, const Candidate& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
  };
  if (params.top_k > 0 && params.top_k < candidates_.size()) {
    std::nth_element(candidates_.begin(), candidates_.begin() + params.top_k, candidates_.end(),
                     likelier);
    candidates_.resize(params.top_k);
  }

  double total = 0;
  for (const Candidate& candidate : candidates_) total += candidate.weight;
  if (params.top_p < 1) {
    // Tokens below (1 - top_p) / n of the mass cannot be needed: all of them together weigh less
    // than what top_p leaves out. This keeps the sort short, and the answer the same.
    const double floor = (1.0 - params.top_p) * total / static_cast<double>(candidates_.size());
    std::erase_if(candidates_,
                  [floor](const Candidate& candidate) { return candidate.weight < floor; });
  }
  std::sort(candidates_.begin(), candidates_.end(), likelier);

  if (params.top_p < 1) {
    double mass = 0;
    size_t keep = 0;
    while (keep < candidates_.size() && mass < params.top_p * total)
      mass += candidates_[keep++].weight;
    candidates_.resize(keep);
  }
}

std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, float log_sum_exp,
                                       uint32_t count) {
  const size_t keep = std::min<size_t>(count, logits.size());
  const auto likelier = [](const TokenLogprob& a, const TokenLogprob& b) {
    return a.logprob != b.logprob ? a.logprob > b.logprob : a.id < b.id;
  };
  std::vector<TokenLogprob> top;  // a heap whose front is the least likely that is kept
  if (keep == 0) return top;
  for (TokenId id = 0; id < logits.size(); ++id) {
    const TokenLogprob entry{id, logits[id] - log_sum_exp};
    if (top.size() < keep) {
      top.push_back(entry);
      std::push_heap(top.begin(), top.end(), likelier);
    } else if (likelier(entry, top.front())) {
      std::pop_heap(top.begin(), top.end(), likelier);
      top.back() = entry;
      std::push_heap(top.begin(), top.end(), likelier);
    }
  }
  std::sort_heap(top.begin(), top.end(), likelier);
  return top;
}

}  // namespace pacer::sampling
