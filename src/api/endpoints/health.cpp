// GET /health: this process is alive and its I/O threads answer. Says nothing of the engine: that
// is /ready, so that an orchestrator does not restart a server that is merely busy.
//
// The worked example of an endpoint. To add one: a file like this, a line in endpoints.h, a line in
// routes.cpp, a transcript in tests/transcript/, a row in docs/api.md.
#include "api/endpoints/endpoints.h"
#include "api/json_format.h"

namespace pacer::api {

void health(ApiContext&, const http::Request&, Writer writer) {
  writer->send(json_response(200, R"({"status":"ok"})"));
}

}  // namespace pacer::api
