// Which handler answers which path, and which gate a request passes before. Filled before the
// server has it, read-only afterwards.
//
// A route is an exact path ("/v1/models"), or ends in one placeholder: "/v1/models/{id}" takes one
// non-empty segment (an encoded slash stays inside it), "/v1/models/{id...}" takes the whole rest,
// slashes included, as model names have them. Exact wins over {id}, {id} over {id...}. No match is
// a 404, a wrong method a 405 with Allow. HEAD is answered by the GET handler, and OPTIONS with
// Allow, unless a route says otherwise.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/message.h"
#include "http/response_writer.h"

namespace pacer::http {

// Runs on an I/O thread: it must not wait. The request is valid until the handler returns (copy or
// move what stays); the writer is kept for as long as the answer takes.
using Handler = std::function<void(const Request&, std::shared_ptr<ResponseWriter>)>;

// Looks at a request before its body is read: a response refuses it (401, say), nothing lets it
// pass. On an I/O thread: it must not wait.
using Gate = std::function<std::optional<Response>(const RequestHead&)>;

class Router {
 public:
  // Twice the same method and path, or a placeholder that is not at the end, is a bug of ours.
  // The gate of GET also keeps HEAD.
  void add(std::string method, std::string path, Handler handler, Gate gate = nullptr);

  // Asked where no route or no method matches, so that a 401 can come before a 404 or a 405.
  void set_unmatched_gate(Gate gate) { unmatched_gate_ = std::move(gate); }

  // What the gate of this request says. Sets head.path_param.
  std::optional<Response> refuse(RequestHead& head) const;

  // Sets request.path_param and calls the handler, or answers by itself through `format_error`.
  void dispatch(Request& request, std::shared_ptr<ResponseWriter> writer,
                const ErrorFormatter& format_error) const;

 private:
  enum class Kind { kExact, kSegment, kRest };
  struct Method {
    std::string name;
    Handler handler;
    Gate gate;
  };
  struct Route {
    Kind kind;
    std::string path;  // of a placeholder route: up to and including the last '/'
    std::vector<Method> methods;
  };

  static bool matches(const Route& route, const RequestHead& head, std::string* param);
  static const Method* find_method(const Route& route, std::string_view method);
  static std::string allow(const Route& route);

  std::vector<Route> routes_;  // exact ones first, then segments, then rests
  Gate unmatched_gate_;
};

}  // namespace pacer::http
