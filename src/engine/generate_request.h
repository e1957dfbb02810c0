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
  uint32_t max_tokens = 16;     // at least 1; prompt + max_tokens within the context
  SamplingParams sampling{};
  bool ignore_eos = false;          // run to max_tokens whatever the model says
  std::vector<std::string> stop{};  // the answer ends before the first of these
  TimePoint arrived{};              // at the HTTP front, before tokenising
};

}  // namespace pacer::engine
