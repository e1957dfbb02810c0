// POST /v1/completions: continues one prompt or several, given as text or as token ids.
#include <memory>
#include <utility>

#include "api/endpoints/endpoints.h"
#include "api/field_rules.h"
#include "api/generation.h"
#include "api/json_body.h"
#include "api/prompts.h"

namespace pacer::api {

namespace {

Result<Generation> read_request(const http::Request& request, ApiContext& context) {
  ASSIGN_OR_RETURN(const Json body, parse_json_object(request.body));
  Fields fields(body);
  check_model(fields, context);
  Generation generation{
      .kind = AnswerKind::kCompletion,
      .options = read_generation_options(fields, AnswerKind::kCompletion, context.random,
                                         context.tokenizer.vocabulary_size()),
      .arrived = request.arrived};
  const text::EncodeOptions encode = read_encode_options(fields);
  fields.find("prompt");  // known, but read last: tokenising is for requests that are else in order
  check_other_fields(fields, context.field_warnings);
  if (!fields.ok()) return fields.error();
  ASSIGN_OR_RETURN(generation.prompts, read_prompts(fields, encode, context));
  return generation;
}

}  // namespace

void completions(ApiContext& context, const http::Request& request, Writer writer) {
  auto log = std::make_unique<RequestLog>(context, request, request.arrived);
  if (refuse_if_full(context, *writer, *log)) return;
  Result<Generation> generation = read_request(request, context);
  if (!generation) return log->refuse(*writer, generation.error());
  generation->log = std::move(log);
  start_generation(context, *std::move(generation), std::move(writer));
}

}  // namespace pacer::api
