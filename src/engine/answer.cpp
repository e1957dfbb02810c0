#include "engine/answer.h"

#include <algorithm>
#include <utility>

namespace pacer::engine {

Answer::Answer(const GenerateRequest& request, const text::Tokenizer& tokenizer)
    : tokenizer_(tokenizer),
      max_tokens_(request.max_tokens),
      min_tokens_(request.sampling.min_tokens),
      ignore_eos_(request.ignore_eos),
      stop_ids_(request.stop_ids),
      stops_(request.stop) {}

std::vector<TokenId> Answer::ends(const GenerateRequest& request,
                                  const text::Tokenizer& tokenizer) {
  std::vector<TokenId> ends = request.stop_ids;
  if (request.ignore_eos) return ends;
  for (const TokenId id : tokenizer.end_of_generation()) ends.push_back(id);
  return ends;
}

bool Answer::ends_with(TokenId token) const {
  return (!ignore_eos_ && tokenizer_.is_end_of_generation(token)) ||
         std::find(stop_ids_.begin(), stop_ids_.end(), token) != stop_ids_.end();
}

Answer::Progress Answer::add(TokenId token) {
  output_tokens_ += 1;
  const bool may_end = output_tokens_ > min_tokens_;
  if (may_end && ends_with(token)) return {flush(), FinishReason::kStop};

  // Control tokens have no place in an answer's text; they still count, and are in the token ids.
  const std::string_view bytes = tokenizer_.is_special(token) ? "" : tokenizer_.token_bytes(token);
  std::string text = utf8_.push(bytes);
  text::StopMatcher::Output output;
  if (may_end) {
    output = stops_.push(text);
  } else {
    output.text = std::move(text);
  }
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
