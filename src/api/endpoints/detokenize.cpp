// POST /detokenize, in vLLM's shape: token ids back to text, control tokens included. Bytes that
// are no whole character are U+FFFD, as JSON cannot say them.
#include <utility>

#include "api/endpoints/endpoints.h"
#include "api/error_format.h"
#include "api/json_body.h"
#include "api/json_format.h"
#include "api/prompts.h"
#include "api/token_ids.h"

namespace pacer::api {

namespace {

Result<std::string> read_request(const http::Request& request, ApiContext& context) {
  ASSIGN_OR_RETURN(const Json body, parse_json_object(request.body));
  Fields fields(body);
  check_model(fields, context);
  const Json* tokens = fields.find("tokens");
  if (tokens == nullptr || !tokens->is_array()) {
    fields.fail("tokens", "a list of token ids", tokens != nullptr ? *tokens : Json());
  }
  if (!fields.ok()) return fields.error();
  ASSIGN_OR_RETURN(const auto ids,
                   read_token_ids(*tokens, "tokens", context.tokenizer.vocabulary_size()));
  return context.tokenizer.decode(ids, /*skip_special=*/false);
}

}  // namespace

void detokenize(ApiContext& context, const http::Request& request, Writer writer) {
  const Result<std::string> text = read_request(request, context);
  if (!text) return writer->send(error_response(text.error()));
  writer->send(json_response(200, R"({"prompt":)" + json_string(*text) + "}"));
}

}  // namespace pacer::api
