#include "engine/answer.h"

namespace pacer::engine {

Answer::Answer(const GenerateRequest& request, const text::Tokenizer& tokenizer)
    : tokenizer_(tokenizer),
      max_tokens_(request.max_tokens),
      ignore_eos_(request.ignore_eos),
      stops_(request.stop) {}

Answer::Progress Answer::add(TokenId token) {
  output_tokens_ += 1;
  if (!ignore_eos_ && tokenizer_.is_end_of_generation(token)) return {flush(), FinishReason::kStop};

  // Control tokens have no place in an answer's text; they still count, and are in the token ids.
  const std::string_view bytes = tokenizer_.is_special(token) ? "" : tokenizer_.token_bytes(token);
  text::StopMatcher::Output output = stops_.push(utf8_.push(bytes));
  if (output.matched) return {std::move(output.text), FinishReason::kStop};
  if (output_tokens_ == max_tokens_) return {output.text + flush(), FinishReason::kLength};
  return {std::move(output.text), std::nullopt};
}

// What was held back, now that nothing can follow: half a character is U+FFFD, the start of a stop
// string is text.
std::string Answer::flush() {
  text::StopMatcher::Output output = stops_.push(utf8_.finish());
  return output.matched ? std::move(output.text) : output.text + stops_.finish();
}

}  // namespace pacer::engine
