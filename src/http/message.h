// What travels over HTTP, as plain values: Headers, Request, Response.
//
// Knows the grammar of names, values and percent-encoding, and nothing of sockets. Filled by
// http/connection, read by api's handlers. Text is bytes here: no value is assumed to be UTF-8.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace pacer::http {

// Header fields in the order they came. Names compare without regard to case.
class Headers {
 public:
  using Field = std::pair<std::string, std::string>;

  Headers() = default;
  Headers(std::initializer_list<Field> fields) : fields_(fields) {}

  void add(std::string name, std::string value) {
    fields_.emplace_back(std::move(name), std::move(value));
  }
  // Replaces every field of that name.
  void set(std::string name, std::string value);
  void remove(std::string_view name);

  // The first value of that name, or nullptr. Valid until the headers change.
  const std::string* find(std::string_view name) const;
  size_t count(std::string_view name) const;

  auto begin() const { return fields_.begin(); }
  auto end() const { return fields_.end(); }
  size_t size() const { return fields_.size(); }

 private:
  std::vector<Field> fields_;
};

// What is known of a request before its body is read.
struct RequestHead {
  std::string method;          // as sent: methods are case-sensitive
  std::string target;          // as sent
  std::string path;            // percent-decoded, without the query
  std::string query;           // as sent, after the '?'; see query_value()
  std::string path_param;      // what a trailing {name} of the route stood for, percent-decoded
  Headers headers;             // without trailers: nobody may add a field after the gate has looked
  std::string id;              // of X-Request-Id: the peer's where it is usable, else a fresh one
  std::string remote_address;  // without the port; "unix" for a peer on the unix socket
};

struct Request : RequestHead {
  std::string body;
  TimePoint arrived{};  // when its last byte was read: TTFT counts from here
};

struct Response {
  int status = 200;
  Headers headers;  // no framing fields: Content-Length, Transfer-Encoding and Date are ours
  std::string body;
};

// Gives errors that arise here (404, 413, 503, ...) the shape that the API promises.
using ErrorFormatter = std::function<Response(int status, std::string message)>;

// text/plain with the message. For tests, and until an API brings its own.
Response plain_error(int status, std::string message);

// "Not Found" for 404; "Unknown" for a status we never send.
std::string_view status_text(int status);

bool equals_ignoring_case(std::string_view a, std::string_view b);

// nullopt for a '%' without two hex digits and for an encoded NUL, which no path of ours can mean.
std::optional<std::string> percent_decode(std::string_view text);

// The decoded value of `name` in "a=1&b=2"; '+' is a space. nullopt when absent or badly encoded.
std::optional<std::string> query_value(std::string_view query, std::string_view name);

// RFC 9110: a name is a token; a value has no control characters but tab. What fails here could
// split a response.
bool is_header_name(std::string_view name);
bool is_header_value(std::string_view value);

}  // namespace pacer::http
