#include "api/routes.h"

#include <utility>

#include "api/endpoints/endpoints.h"

namespace pacer::api {

namespace {

struct Entry {
  const char* method;
  const char* path;
  Endpoint endpoint;
};

constexpr Entry kEndpoints[] = {
    {"POST", "/v1/chat/completions", chat_completions},
    {"POST", "/v1/completions", completions},
    {"GET", "/v1/models", models},
    {"GET", "/v1/models/{id...}", model},  // names of models have slashes
    {"POST", "/tokenize", tokenize},
    {"POST", "/detokenize", detokenize},
    {"GET", "/health", health},
    {"GET", "/ready", ready},
    {"GET", "/metrics", metrics_text},
    {"GET", "/version", version},
};

}  // namespace

http::Router make_router(ApiContext& context) {
  http::Router router;
  for (const Entry& entry : kEndpoints) {
    router.add(entry.method, entry.path,
               [&context, endpoint = entry.endpoint](const http::Request& request, Writer writer) {
                 endpoint(context, request, std::move(writer));
               });
  }
  return router;
}

}  // namespace pacer::api
