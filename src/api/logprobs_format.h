// The log-probabilities of an answer as JSON, gathered token by token and taken in pieces.
//
// Chat and completions have different shapes: a list of entries, or four parallel lists. Either way
// one entry per output token, and the pieces of a stream put together are the whole answer's lists.
// One per choice.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "api/generation_options.h"
#include "base/token.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"

namespace pacer::api {

// The prompt that a completion begins with.
struct EchoedPrompt {
  std::string text{};       // valid UTF-8
  bool is_written = false;  // by the client; else it is its tokens' text
};

class LogprobsFormat {
 public:
  LogprobsFormat(AnswerKind kind, const text::Tokenizer& tokenizer);

  // Completions, before anything is added: offsets count from the start of this text, and the
  // answer's from its end. The prompt's tokens may be added, all of them; the first has no
  // log-probability. The text stays where it is.
  void begin_with(const EchoedPrompt& prompt) { prompt_ = &prompt; }
  void add_first_of_prompt(TokenId token);
  void add_of_prompt(const SampledToken& token);

  void add(const SampledToken& token);
  // The object for all tokens since the last call, or nothing ("") if there were none.
  std::string take();

 private:
  void add_chat(const SampledToken& token);
  void add_completion(const SampledToken& token);
  void append_entry(std::string_view bytes, const SampledToken* token);
  std::string_view take_from_prompt(TokenId token);

  AnswerKind kind_;
  const text::Tokenizer& tokenizer_;

  std::string entries_;  // chat

  std::string tokens_, token_logprobs_, top_logprobs_, text_offsets_;  // completions
  uint64_t characters_ = 0;  // of the answer before the next token
  text::Utf8Assembler utf8_;
  const EchoedPrompt* prompt_ = nullptr;  // until the first token after it
  size_t prompt_bytes_ = 0;               // of it that its tokens so far stand for
};

}  // namespace pacer::api
