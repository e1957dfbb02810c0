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
  // log-probability. Given back is the text to say with each, and last what is left of it: whole
  // characters, and together the prompt's text, which stays where it is.
  void begin_with(const EchoedPrompt& prompt) { prompt_ = &prompt; }
  std::string_view add_first_of_prompt(TokenId token);
  std::string_view add_of_prompt(const SampledToken& token);
  std::string_view end_prompt();  // "" where there is none, or it has ended

  void add(const SampledToken& token);
  // The object for all tokens since the last call, or nothing ("") if there were none.
  std::string take();

 private:
  void add_chat(const SampledToken& token);
  void add_completion(const SampledToken& token);
  void append_entry(std::string_view bytes, const SampledToken* token);
  std::string_view bytes_of_prompt(TokenId token);
  std::string_view take_from_prompt(TokenId token);

  AnswerKind kind_;
  const text::Tokenizer& tokenizer_;

  std::string entries_;  // chat

  std::string tokens_, token_logprobs_, top_logprobs_, text_offsets_;  // completions
  uint64_t characters_ = 0;  // of the answer before the next token
  text::Utf8Assembler utf8_;
  const EchoedPrompt* prompt_ = nullptr;  // until it has ended
  size_t prompt_bytes_ = 0;               // of its text: what its tokens so far stand for
  size_t prompt_bytes_said_ = 0;          // of which whole characters
};

}  // namespace pacer::api
