#include "sampling/sampler.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/rng.h"

namespace pacer::sampling {

Sampler::Sampler(const kernels::KernelTable& kernels, uint32_t vocabulary_size)
    : kernels_(kernels), weights_(vocabulary_size) {
  candidates_.reserve(vocabulary_size);
}

std::optional<SampledToken> Sampler::sample(std::span<const float> logits,
                                            const SamplingParams& params, uint64_t output_index) {
  CHECK(logits.size() == weights_.size(), "{} logits for a vocabulary of {}", logits.size(),
        weights_.size());
  const auto n = static_cast<uint32_t>(logits.size());
  SampledToken token;
  token.id = kernels_.arg_max(logits.data(), n);
  const float best = logits[token.id];
  if (!std::isfinite(best)) return std::nullopt;
  if (params.temperature > 0) {
    weight_total_ =
        kernels_.exp_weights(logits.data(), n, best, 1.0f / params.temperature, weights_.data());
    if (!std::isfinite(weight_total_)) return std::nullopt;
    token.id = draw(params, random_uniform(params.seed, output_index));
  }
  if (params.logprobs) {
    const float log_sum = kernels_.log_sum_exp(logits.data(), n);
    if (!std::isfinite(log_sum)) return std::nullopt;
    token.logprob = logits[token.id] - log_sum;
    token.top = top_logprobs(logits, log_sum, *params.logprobs);
  }
  return token;
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
