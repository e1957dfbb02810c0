// Logits and a request's parameters to one token: stop 9 of a request's walk.
//
// The random number for a token is a pure function of the request's seed and the token's position
// in the answer, so an answer does not depend on what ran beside it. What a request wants done to
// its logits comes first: biases, penalties, no end before min_tokens. Then truncation in this
// order: temperature, min_p, top_k, top_p; each on what the one before left, with top_p's mass
// renormalised over that. Log-probabilities are of the logits as the model gave them.
//
// Penalties cost as much as the request's text is long, not the vocabulary: only the logits of
// tokens that occur are written, and they are written back.
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
  // Of memory, for each token of the vocabulary.
  static constexpr size_t kBytesPerToken = 16;

  Sampler(const kernels::KernelTable& kernels, uint32_t vocabulary_size);

  // logits: [vocabulary_size], before temperature; left as they were. tokens: the prompt, then the
  // answer so far.
  // Nothing: the logits have a NaN or infinity as their greatest, or no sum; the model's fault, not
  // the request's.
  std::optional<SampledToken> sample(std::span<float> logits, const SamplingParams& params,
                                     std::span<const TokenId> tokens, uint32_t prompt_length);

  // The same for parameters that change no logit. output_index: 0 for the first token of the
  // answer.
  std::optional<SampledToken> sample(std::span<const float> logits, const SamplingParams& params,
                                     uint64_t output_index);

  // A token that is given, and the `top_count` most likely ones in its place.
  std::optional<SampledToken> score(std::span<const float> logits, TokenId token,
                                    uint32_t top_count) const;

 private:
  struct Edit {
    TokenId id;
    float logit;  // as the model gave it
  };
  void edit(std::span<float> logits, const SamplingParams& params, std::span<const TokenId> tokens,
            uint32_t prompt_length);
  void penalise(std::span<float> logits, const SamplingParams& params,
                std::span<const TokenId> tokens, uint32_t prompt_length);
  std::optional<TokenId> choose(std::span<const float> logits, const SamplingParams& params,
                                uint64_t output_index);

  struct Candidate {
    TokenId id;
    float weight;  // exp((logit - best logit) / temperature): 1 for the best
  };
  static_assert(kBytesPerToken == sizeof(Candidate) + sizeof(float) + sizeof(uint32_t));

  TokenId draw(const SamplingParams& params, double uniform);
  TokenId draw_from_all(double uniform) const;
  TokenId draw_truncated(const SamplingParams& params, double uniform);
  void collect_candidates(const SamplingParams& params);

  const kernels::KernelTable& kernels_;
  std::vector<Edit> edits_;            // oldest first; an id may come several times
  std::vector<uint32_t> occurrences_;  // [vocabulary_size], zero between calls; made when needed
  std::vector<float> weights_;         // [vocabulary_size]
  double weight_total_ = 0;
  std::vector<Candidate> candidates_;
};

// The `count` greatest values, greatest first; equal values by id. count may exceed the vocabulary.
std::vector<TokenLogprob> top_logprobs(std::span<const float> logits, float log_sum_exp,
                                       uint32_t count);

}  // namespace pacer::sampling
