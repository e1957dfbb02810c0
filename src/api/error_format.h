// How errors look on the wire: OpenAI's {"error":{"message","type","param","code"}}, always with
// the true HTTP status.
//
// Clients branch on the status and on `code`; people read `message`, which has the value, the limit
// and the name. Details of a failure inside go to the log, not to the client.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "http/message.h"

namespace pacer::api {

struct ApiError {
  int status = 500;
  std::string message;
  std::string type;   // "invalid_request_error", "rate_limit_error", ...
  std::string param;  // empty: null
  std::string code;   // empty: null
};

// kTooLarge is "context_length_exceeded" here, and a 400 as OpenAI has it: a body that is too large
// never gets this far. kNotFound is "model_not_found": nothing else has a name.
ApiError to_api_error(const Error& error);

// {"error":{...}} without a newline: the body of a response, or the data of an SSE event.
std::string error_body(const ApiError& error);

// With Retry-After where trying again makes sense (429, 503), and with WWW-Authenticate (401).
http::Response error_response(const ApiError& error);
http::Response error_response(const Error& error);

// An http::ErrorFormatter: 401, 404, 405, 408, 413, ... as they arise below us.
http::Response format_http_error(int status, std::string message);

}  // namespace pacer::api
