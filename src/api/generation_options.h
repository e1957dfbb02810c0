// The fields that both generating endpoints share: how tokens are chosen, when to stop, and in
// which form the answer comes.
//
// Reads and bounds them; what depends on the prompt (the room left for max_tokens) is decided in
// generation.cpp. docs/api.md has the table for users.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "api/json_fields.h"
#include "api/random_source.h"
#include "base/token.h"

namespace pacer::api {

enum class AnswerKind : uint8_t { kChat, kCompletion };

constexpr uint32_t kChoicesPerPromptMax = 16;  // n
constexpr uint32_t kTopLogprobsMax = 20;       // OpenAI's chat limit; its completions allow 5
constexpr size_t kStopStringsMax = 16;         // OpenAI allows 4
constexpr size_t kStopBytesMax = 256;          // of one stop string
constexpr size_t kStopTokensMax = 64;
constexpr size_t kLogitBiasMax = 1024;  // OpenAI allows 300

struct GenerationOptions {
  SamplingParams sampling;             // choice i of a prompt runs with seed + i
  std::optional<uint32_t> max_tokens;  // none: the endpoint's default; 0: only with echo
  uint32_t n = 1;
  std::vector<std::string> stop;
  std::vector<TokenId> stop_token_ids;
  bool ignore_eos = false;
  bool echo = false;  // the prompt before the answer; with its log-probabilities, if there are any

  bool stream = false;
  bool include_usage = false;           // a last chunk with the usage
  bool continuous_usage_stats = false;  // every chunk with the usage so far
  bool return_token_ids = false;
};

// Errors stick to `fields`. random gives the seed where the client sent none. vocabulary_size:
// token ids in fields are below it.
GenerationOptions read_generation_options(
    Fields& fields, AnswerKind kind, RandomSource& random,
    uint32_t vocabulary_size = std::numeric_limits<uint32_t>::max());

}  // namespace pacer::api
