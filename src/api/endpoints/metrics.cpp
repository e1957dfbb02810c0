// GET /metrics: the Prometheus text exposition of what the engine counts (docs/metrics.md), and of
// the log lines that whoever reads stderr was too slow for.
#include <fmt/format.h>

#include "api/endpoints/endpoints.h"
#include "base/log.h"

namespace pacer::api {

void metrics_text(ApiContext& context, const http::Request&, Writer writer) {
  http::Response response;
  response.headers.add("Content-Type", "text/plain; version=0.0.4; charset=utf-8");
  response.body = context.metrics.text(context.engine.stalled_for());
  response.body += fmt::format(
      "# HELP pacer_log_lines_dropped_total Log lines lost because stderr was read too slowly.\n"
      "# TYPE pacer_log_lines_dropped_total counter\npacer_log_lines_dropped_total {}\n",
      log::dropped_lines());
  writer->send(std::move(response));
}

}  // namespace pacer::api
