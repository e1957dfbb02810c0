// From a checked request to the engine: lengths, defaults, one engine request per choice. Stop 4 of
// a request's walk.
#pragma once

#include <memory>
#include <vector>

#include "api/context.h"
#include "api/generation_options.h"
#include "api/prompts.h"
#include "api/request_log.h"
#include "http/response_writer.h"

namespace pacer::api {

// Completions without max_tokens get this many, as at OpenAI; chats get the rest of the context.
constexpr uint32_t kCompletionMaxTokens = 16;

struct Generation {
  AnswerKind kind = AnswerKind::kChat;
  std::vector<Prompt> prompts{};  // at least one, none empty
  GenerationOptions options{};
  TimePoint arrived{};
  std::unique_ptr<RequestLog> log{};
};

// True, and the writer has its answer, when a request cannot be taken in now whatever it says.
// Asked before anything is parsed: an overloaded server must not spend time on work that it
// refuses.
bool refuse_if_full(ApiContext& context, http::ResponseWriter& writer, RequestLog& log);

void start_generation(ApiContext& context, Generation generation,
                      std::shared_ptr<http::ResponseWriter> writer);

}  // namespace pacer::api
