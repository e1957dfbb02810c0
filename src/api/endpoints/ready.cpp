// GET /ready: whether new requests should come here. 503 while shutting down, and when there is
// work but no step has finished for too long; with the age of the last step, so that an operator
// sees how stuck it is.
#include <fmt/format.h>

#include "api/endpoints/endpoints.h"
#include "api/json_format.h"

namespace pacer::api {

void ready(ApiContext& context, const http::Request&, Writer writer) {
  const Duration age = context.engine.stalled_for();
  const bool stalled = age > context.stalled_after;
  const bool draining = context.draining.load();
  const char* status = draining ? "draining" : stalled ? "stalled" : "ready";
  writer->send(
      json_response(draining || stalled ? 503 : 200,
                    fmt::format(R"({{"status":"{}","in_flight":{},"last_step_age_s":{:.3f}}})",
                                status, context.engine.in_flight(), seconds(age))));
}

}  // namespace pacer::api
