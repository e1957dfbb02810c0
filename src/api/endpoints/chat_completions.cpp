// POST /v1/chat/completions: the assistant's next message, by the model's own chat template.
#include <memory>
#include <utility>

#include "api/endpoints/endpoints.h"
#include "api/field_rules.h"
#include "api/generation.h"
#include "api/json_body.h"
#include "api/messages.h"
#include "api/open_chat.h"
#include "api/prompts.h"

namespace pacer::api {

namespace {

Result<Generation> read_request(const http::Request& request, ApiContext& context) {
  ASSIGN_OR_RETURN(const Json body, parse_json_object(request.body));
  Fields fields(body);
  check_model(fields, context);
  Generation generation{
      .kind = AnswerKind::kChat,
      .options = read_generation_options(fields, AnswerKind::kChat, context.random,
                                         context.tokenizer.vocabulary_size()),
      .arrived = request.arrived};
  const Json chat = read_chat(fields, context.chat_template, context.field_warnings);
  const bool continue_final_message = read_continue_final_message(fields, chat);
  check_other_fields(fields, context.field_warnings);
  if (!fields.ok()) return fields.error();
  ASSIGN_OR_RETURN(auto tokens, encode_chat(chat, continue_final_message, context));
  generation.prompts.push_back({.tokens = std::move(tokens)});
  return generation;
}

}  // namespace

void chat_completions(ApiContext& context, const http::Request& request, Writer writer) {
  auto log = std::make_unique<RequestLog>(context, request, request.arrived);
  if (refuse_if_full(context, *writer, *log)) return;
  Result<Generation> generation = read_request(request, context);
  if (!generation) return log->refuse(*writer, generation.error());
  generation->log = std::move(log);
  start_generation(context, *std::move(generation), std::move(writer));
}

}  // namespace pacer::api
