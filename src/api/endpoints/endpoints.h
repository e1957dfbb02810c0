// The endpoints that exist; each is one file beside this one and one line in routes.cpp.
//
// A handler runs on an I/O thread and must not wait. It answers through the writer, now or later;
// the request is gone when it returns.
#pragma once

#include <memory>

#include "api/context.h"
#include "http/message.h"
#include "http/response_writer.h"

namespace pacer::api {

using Writer = std::shared_ptr<http::ResponseWriter>;
using Endpoint = void (*)(ApiContext& context, const http::Request& request, Writer writer);

void chat_completions(ApiContext& context, const http::Request& request, Writer writer);
void completions(ApiContext& context, const http::Request& request, Writer writer);
void models(ApiContext& context, const http::Request& request, Writer writer);
void model(ApiContext& context, const http::Request& request, Writer writer);
void tokenize(ApiContext& context, const http::Request& request, Writer writer);
void detokenize(ApiContext& context, const http::Request& request, Writer writer);
void health(ApiContext& context, const http::Request& request, Writer writer);
void ready(ApiContext& context, const http::Request& request, Writer writer);
void metrics_text(ApiContext& context, const http::Request& request, Writer writer);
void version(ApiContext& context, const http::Request& request, Writer writer);

}  // namespace pacer::api
