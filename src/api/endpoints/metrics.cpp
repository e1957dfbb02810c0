// GET /metrics: the Prometheus text exposition of what the engine counts (docs/metrics.md).
#include "api/endpoints/endpoints.h"

namespace pacer::api {

void metrics_text(ApiContext& context, const http::Request&, Writer writer) {
  http::Response response;
  response.headers.add("Content-Type", "text/plain; version=0.0.4; charset=utf-8");
  response.body = context.metrics.text(context.engine.stalled_for());
  writer->send(std::move(response));
}

}  // namespace pacer::api
