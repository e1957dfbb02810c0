#include "http/cors.h"

#include <algorithm>
#include <string_view>

namespace pacer::http {
namespace {

// Of the preflight, by the browser: the most that the big ones take.
constexpr const char* kMaxAgeSeconds = "7200";

bool is_origin(std::string_view text) {
  if (text == "null") return true;
  const size_t scheme = text.find("://");
  if (scheme == std::string_view::npos || scheme == 0) return false;
  const std::string_view host = text.substr(scheme + 3);
  return !host.empty() && host.find_first_of("/?#@*, ") == std::string_view::npos &&
         is_header_value(text);
}

// As a browser sends them: names, commas and spaces. What is odd is not echoed.
bool is_name_list(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return c == ' ' || c == ',' || is_header_name(std::string_view(&c, 1));
  });
}

}  // namespace

Result<Cors> Cors::make(const std::vector<std::string>& allowed_origins) {
  Cors cors;
  for (const std::string& origin : allowed_origins) {
    if (origin == "*") {
      cors.any_ = true;
    } else if (is_origin(origin)) {
      cors.origins_.push_back(origin);
    } else {
      return error(Code::kInvalidArgument,
                   "'{}' is not an origin that pages have: give scheme://host or "
                   "scheme://host:port, without a path, or '*' for any",
                   origin);
    }
  }
  return cors;
}

bool Cors::allows(const std::string& origin) const {
  return any_ || std::any_of(origins_.begin(), origins_.end(), [&](const std::string& allowed) {
           return equals_ignoring_case(allowed, origin);
         });
}

void Cors::add_fields(const std::string* origin, Headers& to) const {
  if (!any_ && origins_.empty()) return;
  // Or a cache would give one page's answer to another.
  if (!any_) to.add("Vary", "Origin");
  if (origin == nullptr || !allows(*origin)) return;
  to.add("Access-Control-Allow-Origin", any_ ? "*" : *origin);
  to.add("Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
}

bool Cors::is_preflight(const RequestHead& head) const {
  return (any_ || !origins_.empty()) && head.method == "OPTIONS" &&
         head.headers.find("Origin") != nullptr &&
         head.headers.find("Access-Control-Request-Method") != nullptr;
}

Response Cors::preflight(const RequestHead& head) const {
  Response response{204, {}, {}};
  if (!allows(*head.headers.find("Origin"))) return response;  // the browser then refuses
  response.headers.add("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE");
  // Asked for one by one, since '*' would not stand for Authorization.
  const std::string* wanted = head.headers.find("Access-Control-Request-Headers");
  if (wanted != nullptr && !wanted->empty() && is_name_list(*wanted)) {
    response.headers.add("Access-Control-Allow-Headers", *wanted);
  }
  response.headers.add("Access-Control-Max-Age", kMaxAgeSeconds);
  return response;
}

}  // namespace pacer::http
