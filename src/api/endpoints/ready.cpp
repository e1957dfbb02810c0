// GET /ready: whether new requests should come here. 503 while shutting down, and when there is
// work but no step has finished for too long; with the age of the last step, so that an operator
// sees how stuck it is. While the model is loaded, routes.cpp answers.
#include <fmt/format.h>

#include <algorithm>

#include "api/endpoints/endpoints.h"
#include "api/json_format.h"

namespace pacer::api {

void ready(ApiContext& context, const http::Request&, Writer writer) {
  const Duration age = context.engine.stalled_for();
  const bool stalled = age > context.stalled_after;
  const bool draining = context.draining.load();
  const char* status = draining ? "draining" : stalled ? "stalled" : "ready";
  // What runs is as of the last step; whoever came since waits.
  const uint32_t in_flight = context.engine.in_flight();
  const uint32_t running = std::min(context.metrics.running(), in_flight);
  http::Response response = json_response(
      draining || stalled ? 503 : 200,
      fmt::format(R"({{"status":"{}","last_step_age_s":{:.3f},"running":{},"waiting":{}}})", status,
                  seconds(age), running, in_flight - running));
  if (response.status == 503) response.headers.add("Retry-After", "1");
  writer->send(std::move(response));
}

}  // namespace pacer::api
