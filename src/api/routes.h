// Which endpoint answers which path, at which door, and who may pass: the map of the API.
//
// Closed by default: where there are API keys, a route wants one unless its entry says that it is
// open. What is not there wants one too, so that 401 comes before 404 and 405: whoever has no key
// learns nothing of the paths.
#pragma once

#include <string>
#include <vector>

#include "api/context.h"
#include "http/router.h"

namespace pacer::api {

enum class Door : uint8_t {
  kPublic,                // everything
  kPublicWithoutMetrics,  // where an admin listener has them
  kAdmin,                 // what looks at the server and runs nothing; no keys
};

// The context outlives the router and the server that runs it.
http::Router make_router(ApiContext& context, Door door = Door::kPublic);

// Until there is a context: /health and /version answer as ever, /ready says "loading", the rest is
// a 503 with Retry-After.
http::Router make_loading_router(const ApiKeys& keys, Door door = Door::kPublic);

// For tests and documentation.
struct RouteInfo {
  std::string method, path;
  bool open;  // needs no key
};
std::vector<RouteInfo> all_routes();

}  // namespace pacer::api
