// What a client asks for, once it has been checked and tokenised: stop 4 of a request's walk.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/token.h"

namespace pacer::engine {

enum class RequestId : uint64_t {};  // the engine's own, unique while it lives

struct GenerateRequest {
  std::string name;             // the client-visible id, for logs ("chatcmpl-...")
  std::vector<TokenId> prompt;  // at least one token
  // Prompt + max_tokens within the context. 0: the prompt is run and nothing is said.
  uint32_t max_tokens = 16;
  SamplingParams sampling{};        // `ends` is filled by the engine
  bool prompt_logprobs = false;     // sampling.logprobs for the tokens of the prompt too
  bool ignore_eos = false;          // run to max_tokens whatever the model says
  std::vector<TokenId> stop_ids{};  // the answer ends with one of these, whose text is left out
  std::vector<std::string> stop{};  // the answer ends before the first of these
  TimePoint arrived{};              // at the HTTP front, before tokenising
};

}  // namespace pacer::engine
