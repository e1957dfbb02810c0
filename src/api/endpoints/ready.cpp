// GET /ready: whether new requests should come here. 503 while shutting down, and when there is
// work but no step has finished for too long; with the age of the last step, so that an operator
// sees how stuck it is.
#include <fmt/format.h>

#include <algorithm>

#include "api/endpoints/endpoints.h"
#include "api/json_format.h"

namespace pacer::api {

namespace {

// The engine stamps a step when it ends. Right after an idle night that stamp is old although
// nothing is stuck: work counts from when there was some.
Duration age_of_work(const ApiContext& context) {
  if (context.engine.in_flight() == 0) return Duration::zero();
  return std::min(context.engine.last_step_age(), context.clock.now() - context.busy_since.load());
}

}  // namespace

void ready(ApiContext& context, const http::Request&, Writer writer) {
  const Duration age = std::max(age_of_work(context), Duration::zero());
  const bool stalled = age > context.stalled_after;
  const bool draining = context.draining.load();
  const char* status = draining ? "draining" : stalled ? "stalled" : "ready";
  writer->send(
      json_response(draining || stalled ? 503 : 200,
                    fmt::format(R"({{"status":"{}","in_flight":{},"last_step_age_s":{:.3f}}})",
                                status, context.engine.in_flight(), seconds(age))));
}

}  // namespace pacer::api
