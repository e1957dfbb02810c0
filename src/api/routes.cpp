#include "api/routes.h"

#include <utility>

#include "api/endpoints/endpoints.h"
#include "api/error_format.h"
#include "api/json_format.h"
#include "base/version.h"

namespace pacer::api {

namespace {

enum class Access : uint8_t { kKey, kOpen };
enum class Side : uint8_t { kPublic, kBoth, kMetrics };  // kMetrics: with the admin listener if any

struct Entry {
  const char* method;
  const char* path;
  Endpoint endpoint;
  Access access = Access::kKey;
  Side side = Side::kPublic;
};

constexpr Entry kEndpoints[] = {
    {"POST", "/v1/chat/completions", chat_completions},
    {"POST", "/v1/completions", completions},
    {"GET", "/v1/models", models},
    {"GET", "/v1/models/{id...}", model},  // names of models have slashes
    {"POST", "/tokenize", tokenize},
    {"POST", "/detokenize", detokenize},
    {"GET", "/health", health, Access::kOpen, Side::kBoth},
    {"GET", "/ready", ready, Access::kOpen, Side::kBoth},
    {"GET", "/version", version, Access::kOpen, Side::kBoth},
    {"GET", "/metrics", metrics_text, Access::kOpen, Side::kMetrics},
};

bool is_at(const Entry& entry, Door door) {
  switch (entry.side) {
    case Side::kPublic:
      return door != Door::kAdmin;
    case Side::kBoth:
      return true;
    case Side::kMetrics:
      return door != Door::kPublicWithoutMetrics;
  }
  return false;
}

// handler_of(entry) for every route of the door, behind its gate.
template <class HandlerOf>
http::Router router_for(Door door, const ApiKeys& keys, HandlerOf&& handler_of) {
  http::Router router;
  const http::Gate gate = door == Door::kAdmin ? nullptr : keys.gate();
  for (const Entry& entry : kEndpoints) {
    if (!is_at(entry, door)) continue;
    router.add(entry.method, entry.path, handler_of(entry),
               entry.access == Access::kOpen ? nullptr : gate);
  }
  router.set_unmatched_gate(gate);
  return router;
}

http::Response loading_response(Endpoint endpoint) {
  if (endpoint == health) return json_response(200, R"({"status":"ok"})");
  if (endpoint == version) {
    return json_response(200, R"({"version":)" + json_string(kVersion) + "}");
  }
  if (endpoint == ready) {
    http::Response response = json_response(503, R"({"status":"loading"})");
    response.headers.add("Retry-After", "1");
    return response;
  }
  return error_response(error(Code::kUnavailable, "the model is being loaded"));
}

}  // namespace

http::Router make_router(ApiContext& context, Door door) {
  return router_for(door, context.keys, [&context](const Entry& entry) -> http::Handler {
    return [&context, endpoint = entry.endpoint](const http::Request& request, Writer writer) {
      endpoint(context, request, std::move(writer));
    };
  });
}

http::Router make_loading_router(const ApiKeys& keys, Door door) {
  return router_for(door, keys, [](const Entry& entry) -> http::Handler {
    return [endpoint = entry.endpoint](const http::Request&, const Writer& writer) {
      writer->send(loading_response(endpoint));
    };
  });
}

std::vector<RouteInfo> all_routes() {
  std::vector<RouteInfo> routes;
  for (const Entry& entry : kEndpoints) {
    routes.push_back({entry.method, entry.path, entry.access == Access::kOpen});
  }
  return routes;
}

}  // namespace pacer::api
