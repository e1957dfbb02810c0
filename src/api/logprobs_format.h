// The log-probabilities of an answer as JSON, gathered token by token and taken in pieces.
//
// Chat and completions have different shapes: a list of entries, or four parallel lists. Either way
// one entry per output token, and the pieces of a stream put together are the whole answer's lists.
// One per choice.
#pragma once

#include <cstdint>
#include <string>

#include "api/generation_options.h"
#include "base/token.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"

namespace pacer::api {

class LogprobsFormat {
 public:
  LogprobsFormat(AnswerKind kind, const text::Tokenizer& tokenizer);

  void add(const SampledToken& token);
  // The object for all tokens since the last call, or nothing ("") if there were none.
  std::string take();

 private:
  void add_chat(const SampledToken& token);
  void add_completion(const SampledToken& token);

  AnswerKind kind_;
  const text::Tokenizer& tokenizer_;

  std::string entries_;  // chat

  std::string tokens_, token_logprobs_, top_logprobs_, text_offsets_;  // completions
  uint64_t characters_ = 0;  // of the answer before the next token
  text::Utf8Assembler utf8_;
};

}  // namespace pacer::api
