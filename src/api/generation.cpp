#include "api/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/error_format.h"
#include "api/generation_response.h"

namespace pacer::api {

namespace {

Error too_long(std::string message, const char* param) {
  return Error{Code::kTooLarge, std::move(message), param};
}

// The output tokens that a prompt may have, or why it cannot have what was asked.
Result<uint32_t> max_tokens_for(size_t prompt_tokens, const Generation& generation,
                                const ApiContext& context) {
  const uint64_t limit = context.engine.config().max_model_len;
  if (prompt_tokens >= limit) {
    return too_long(
        fmt::format("the prompt has {} tokens, but the context holds {}, answer included",
                    prompt_tokens, limit),
        generation.kind == AnswerKind::kChat ? "messages" : "prompt");
  }
  if (const auto asked = generation.options.max_tokens) {
    const uint64_t total = prompt_tokens + *asked;
    if (total <= limit) return *asked;  // 0 is asked for only with echo
    return too_long(fmt::format("the prompt has {} tokens and max_tokens is {}: {} tokens, but the "
                                "context holds {}",
                                prompt_tokens, *asked, total, limit),
                    "max_tokens");
  }
  // A pool smaller than the context bounds the default too. A prompt that does not fit the pool at
  // all is the engine's to refuse.
  const uint64_t held = context.engine.length_max();
  const auto rest = static_cast<uint32_t>((prompt_tokens < held ? held : limit) - prompt_tokens);
  return generation.kind == AnswerKind::kCompletion ? std::min(kCompletionMaxTokens, rest) : rest;
}

Status check_choice_count(size_t choices, const ApiContext& context) {
  const uint32_t limit = context.engine.in_flight_max();
  if (choices <= limit) return Ok{};
  return error(Code::kInvalidArgument,
               "prompts x n asks for {} answers, but this server takes at most {} at once", choices,
               limit);
}

// Takes the tokens out of the prompts.
Result<std::vector<engine::GenerateRequest>> make_requests(Generation& generation,
                                                           const std::string& id,
                                                           const ApiContext& context) {
  const GenerationOptions& options = generation.options;
  TRY(check_choice_count(generation.prompts.size() * options.n, context));
  std::vector<engine::GenerateRequest> requests;
  for (Prompt& prompt : generation.prompts) {
    Result<uint32_t> max_tokens = max_tokens_for(prompt.tokens.size(), generation, context);
    if (!max_tokens) {
      context.metrics.on_rejected(metrics::RejectedReason::kTooLong);
      return max_tokens.error();
    }
    if (options.sampling.min_tokens > *max_tokens) {
      return Error{Code::kInvalidArgument,
                   fmt::format("'min_tokens' is {}, but the answer has at most {} tokens",
                               options.sampling.min_tokens, *max_tokens),
                   "min_tokens"};
    }
    for (uint32_t i = 0; i < options.n; ++i) {
      engine::GenerateRequest request;
      request.name = requests.empty() ? id : fmt::format("{}-{}", id, requests.size());
      request.max_tokens = *max_tokens;
      request.sampling = options.sampling;
      request.sampling.seed += i;  // per prompt, so that a prompt's answers do not depend on others
      request.prompt_logprobs = options.echo && options.sampling.logprobs.has_value();
      request.ignore_eos = options.ignore_eos;
      request.stop_ids = options.stop_token_ids;
      request.stop = options.stop;
      request.arrived = generation.arrived;
      request.prompt = i + 1 == options.n ? std::move(prompt.tokens) : prompt.tokens;
      requests.push_back(std::move(request));
    }
  }
  return requests;
}

// What answers begin with: a prompt as it was written, or the text of its tokens.
std::vector<EchoedPrompt> echoes_of(const Generation& generation,
                                    const text::Tokenizer& tokenizer) {
  std::vector<EchoedPrompt> echoes;
  if (!generation.options.echo) return echoes;
  for (const Prompt& prompt : generation.prompts) {
    if (prompt.text) {
      echoes.push_back({.text = *prompt.text, .is_written = true});
      continue;
    }
    EchoedPrompt echo;
    text::Utf8Assembler utf8;
    for (const TokenId id : prompt.tokens) echo.text += utf8.push(tokenizer.token_bytes(id));
    echo.text += utf8.finish();
    echoes.push_back(std::move(echo));
  }
  return echoes;
}

}  // namespace

bool refuse_if_full(ApiContext& context, http::ResponseWriter& writer, RequestLog& log) {
  const uint32_t limit = context.engine.in_flight_max();
  if (context.draining.load()) {
    context.metrics.on_rejected(metrics::RejectedReason::kShuttingDown);
    log.refuse(writer, error(Code::kUnavailable, "the server is shutting down"));
    return true;
  }
  if (context.engine.in_flight() < limit) return false;
  context.metrics.on_rejected(metrics::RejectedReason::kQueueFull);
  log.refuse(writer,
             error(Code::kExhausted, "the queue is full: {} requests are in flight, {} may be",
                   limit, limit));
  return true;
}

void start_generation(ApiContext& context, Generation generation,
                      std::shared_ptr<http::ResponseWriter> writer) {
  if (writer->gone()) return;  // left while we tokenised: the engine need not hear of it
  const AnswerKind kind = generation.kind;
  const GenerationOptions options = generation.options;
  std::string id = context.random.next_id(kind == AnswerKind::kChat ? "chatcmpl-" : "cmpl-");
  std::vector<EchoedPrompt> echoes = echoes_of(generation, context.tokenizer);
  Result<std::vector<engine::GenerateRequest>> requests = make_requests(generation, id, context);
  if (!requests) return generation.log->refuse(*writer, requests.error());
  std::make_shared<GenerationResponse>(context, kind, options, std::move(id), std::move(writer),
                                       std::move(generation.log))
      ->start(*std::move(requests), std::move(echoes));
}

}  // namespace pacer::api
