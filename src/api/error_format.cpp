#include "api/error_format.h"

#include <fmt/format.h>

#include <utility>

#include "api/json_format.h"

namespace pacer::api {

namespace {

int status_of(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
    case Code::kUnsupported:
    case Code::kTooLarge:
      return 400;
    case Code::kNotFound:
      return 404;
    case Code::kExhausted:
      return 429;
    case Code::kUnavailable:
      return 503;
    case Code::kBadFile:
    case Code::kIo:
    case Code::kInternal:
      return 500;
  }
  return 500;
}

// A transfer coding that we do not speak (501) is the client's to change.
bool is_ours(int status) {
  return status >= 500 && status != 501;
}

// The types and codes that OpenAI documents for these statuses.
const char* type_of(int status) {
  if (status == 429) return "rate_limit_error";
  if (status == 503) return "service_unavailable_error";
  return is_ours(status) ? "server_error" : "invalid_request_error";
}

const char* code_of(int status) {
  if (status == 401) return "invalid_api_key";
  if (status == 429) return "rate_limit_exceeded";
  if (status == 503) return "service_unavailable";
  return is_ours(status) ? "internal_error" : "";
}

const char* code_of(Code code, int status) {
  if (code == Code::kTooLarge) return "context_length_exceeded";
  if (code == Code::kNotFound) return "model_not_found";
  if (code == Code::kUnsupported) return "unsupported_parameter";
  return code_of(status);
}

std::string string_or_null(std::string_view text) {
  return text.empty() ? "null" : json_string(text);
}

}  // namespace

ApiError to_api_error(const Error& error) {
  ApiError out;
  out.status = status_of(error.code);
  out.message = error.message;
  out.type = type_of(out.status);
  out.param = error.param;
  out.code = code_of(error.code, out.status);
  if (out.status == 500)
    out.message = "the server failed to answer this request; it may be retried";
  return out;
}

std::string error_body(const ApiError& error) {
  return fmt::format(R"({{"error":{{"message":{},"type":{},"param":{},"code":{}}}}})",
                     json_string(error.message), json_string(error.type),
                     string_or_null(error.param), string_or_null(error.code));
}

http::Response error_response(const ApiError& error) {
  http::Response response = json_response(error.status, error_body(error));
  if (error.status == 429 || error.status == 503) response.headers.add("Retry-After", "1");
  if (error.status == 401) response.headers.add("WWW-Authenticate", "Bearer");
  return response;
}

http::Response error_response(const Error& error) {
  return error_response(to_api_error(error));
}

http::Response format_http_error(int status, std::string message) {
  return error_response({.status = status,
                         .message = std::move(message),
                         .type = type_of(status),
                         .param = {},
                         .code = code_of(status)});
}

}  // namespace pacer::api
