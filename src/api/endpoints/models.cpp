// GET /v1/models and /v1/models/{id}: the one model that is served, in OpenAI's shape with vLLM's
// max_model_len.
#include <fmt/format.h>

#include "api/endpoints/endpoints.h"
#include "api/error_format.h"
#include "api/json_format.h"

namespace pacer::api {

namespace {

std::string model_json(const ApiContext& context) {
  return fmt::format(
      R"({{"id":{},"object":"model","created":{},"owned_by":"pacer","max_model_len":{}}})",
      json_string(context.model_name), context.started_unix_s, context.engine.length_max());
}

}  // namespace

void models(ApiContext& context, const http::Request&, Writer writer) {
  writer->send(
      json_response(200, fmt::format(R"({{"object":"list","data":[{}]}})", model_json(context))));
}

void model(ApiContext& context, const http::Request& request, Writer writer) {
  if (request.path_param == context.model_name) {
    return writer->send(json_response(200, model_json(context)));
  }
  Error unknown = error(Code::kNotFound, "the model '{}' does not exist here; '{}' does",
                        shortened(request.path_param, 200), context.model_name);
  unknown.param = "model";
  writer->send(error_response(unknown));
}

}  // namespace pacer::api
