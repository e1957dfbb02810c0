// GET /version: which program this is.
#include "api/endpoints/endpoints.h"
#include "api/json_format.h"

namespace pacer::api {

void version(ApiContext& context, const http::Request&, Writer writer) {
  writer->send(json_response(200, R"({"version":)" + json_string(context.version) + "}"));
}

}  // namespace pacer::api
