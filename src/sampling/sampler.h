// Logits and a request's parameters to one token: stop 9 of a request's walk.
//
// The random number for a token is a pure function of the request's seed and the token's position
// in the answer, so an answer does not depend on what ran beside it. Truncation in this order:
// temperature, min_p, top_k, top_p; each on what the one before left, with top_p's mass
// renormalised over that.
//
// One Sampler per worker: it owns scratch, and is not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/token.h"
#include "kernels/kernel_table.h"

namespace pacer::sampling {

class Sampler {
 public:
  Sampler(const kernels::KernelTable& kernels, uint32_t vocabulary_size);

  // logits: [vocabulary_size], before temperature. output_index: 0 for the first token of the
  // answer.
  // Nothing: the logits have a NaN or infinity as their greatest, or no sum; the model's fault, not
  // the request's.
  std::optional<SampledToken> sample(std::span<const float> logits, const SamplingParams& params,
                                     uint64_t output_index);

 private:
  struct Candidate {
    TokenId id;
    float weight;  // exp((logit - best logit) / temperature): 1 for the best
  };

  TokenId draw(const SamplingParams& params, double uniform);
  TokenId draw_from_all(double uniform) const;
  TokenId draw_truncated(const SamplingParams& params, double uniform);
  void collect_candidates(const SamplingParams& params);

  const kernels::KernelTable& kernels_;
  std::vector<float> weights_;  // [vocabulary_size]
  double weight_total_ = 0;
  std::vector<Candidate> candidates_;
};

// The `count` greatest values, greatest first; equal values by id. count may exceed the vocabulary.
std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, float log_sum_exp,
                                       uint32_t count);

}  // namespace pacer::sampling
