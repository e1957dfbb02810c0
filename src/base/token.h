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

struct LogitBias {
  TokenId id = 0;
  float bias = 0.0f;  // added to the token's logit
};

// One request's choice of tokens. Plain data; validated by api, carried by sched, applied by
// sampling.
struct SamplingParams {
  float temperature = 1.0f;  // 0: greedy
  uint32_t top_k = 0;        // 0: off
  float top_p = 1.0f;        // (0, 1]
  float min_p = 0.0f;        // [0, 1]: keep tokens with p >= min_p * p(best)
  uint64_t seed = 0;         // always set: the API draws one when the request has none

  // What is done to the logits before all of these, in this order.
  std::vector<LogitBias> logit_bias{};  // each id at most once
  float repetition_penalty = 1.0f;      // > 0; of tokens of the prompt or the answer
  float frequency_penalty = 0.0f;       // for each time that the answer has the token
  float presence_penalty = 0.0f;        // once for a token that the answer has
  uint32_t min_tokens = 0;              // so many output tokens are none of `ends`
  std::vector<TokenId> ends{};          // tokens that end the answer

  bool penalises() const {
    return repetition_penalty != 1.0f || frequency_penalty != 0.0f || presence_penalty != 0.0f;
  }

  // Log-probabilities wanted for each output token: none, the chosen token's (0), or also the N
  // most likely.
  std::optional<uint32_t> logprobs{};
};

struct TokenLogprob {
  TokenId id = 0;
  float logprob = 0.0f;  // natural log, of what the model said, before anything of SamplingParams
};

// One generated token, or one of the prompt, with the log-probabilities that its request asked for.
struct SampledToken {
  TokenId id = 0;
  float logprob = 0.0f;
  std::vector<TokenLogprob> top{};  // most likely first; empty unless asked
};

}  // namespace pacer
