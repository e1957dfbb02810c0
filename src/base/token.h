// What a token is, and how one is chosen: the two types that text, sched, sampling and engine all
// speak of.
//
// They live here because sched (which carries the parameters) and sampling (which applies them) may
// not include each other.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace pacer {

using TokenId = uint32_t;

// One request's choice of tokens. Plain data; validated by api, carried by sched, applied by
// sampling.
struct SamplingParams {
  float temperature = 1.0f;  // 0: greedy
  uint32_t top_k = 0;        // 0: off
  float top_p = 1.0f;        // (0, 1]
  float min_p = 0.0f;        // [0, 1]: keep tokens with p >= min_p * p(best)
  uint64_t seed = 0;         // always set: the API draws one when the request has none
  // Log-probabilities wanted for each output token: none, the chosen token's (0), or also the N
  // most likely.
  std::optional<uint32_t> logprobs{};
};

struct TokenLogprob {
  TokenId id = 0;
  float logprob =
      0.0f;  // natural log, of the model's distribution before temperature and truncation
};

// One generated token with the log-probabilities that its request asked for.
struct SampledToken {
  TokenId id = 0;
  float logprob = 0.0f;
  std::vector<TokenLogprob> top;  // most likely first; empty unless asked
};

}  // namespace pacer
