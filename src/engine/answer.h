// One request's answer as it grows: token ids in, sendable text and the reason to stop out.
//
// Decides every way in which an answer ends by itself: end-of-generation token, the request's stop
// tokens and strings (none of these three within min_tokens), max_tokens. Knows nothing of
// scheduling; owned by the engine, one per request.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/generate_request.h"
#include "engine/output_event.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"

namespace pacer::engine {

class Answer {
 public:
  Answer(const GenerateRequest& request, const text::Tokenizer& tokenizer);

  struct Progress {
    std::string text;                    // to send now
    std::optional<FinishReason> finish;  // the answer is complete with this token
  };
  Progress add(TokenId token);

  // Tokens that end an answer to this request.
  static std::vector<TokenId> ends(const GenerateRequest& request,
                                   const text::Tokenizer& tokenizer);

  uint32_t max_tokens() const { return max_tokens_; }
  uint32_t output_tokens() const { return output_tokens_; }

 private:
  bool ends_with(TokenId token) const;
  std::string flush();

  const text::Tokenizer& tokenizer_;
  uint32_t max_tokens_;
  uint32_t min_tokens_;
  bool ignore_eos_;
  std::vector<TokenId> stop_ids_;
  uint32_t output_tokens_ = 0;
  text::Utf8Assembler utf8_;
  text::StopMatcher stops_;
};

}  // namespace pacer::engine
