// Which handler answers which path. Filled before the server starts, read-only afterwards.
//
// A route is an exact path ("/v1/models"), or ends in one placeholder: "/v1/models/{id}" takes one
// non-empty segment (an encoded slash stays inside it), "/v1/models/{id...}" takes the whole rest,
// slashes included, as model names have them. Exact wins over {id}, {id} over {id...}. No match is
// a 404, a wrong method a 405 with Allow. HEAD is answered by the GET handler, and OPTIONS with
// Allow, unless a route says otherwise.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "http/message.h"
#include "http/response_writer.h"

namespace pacer::http {

// Runs on an I/O thread: it must not wait. The request is valid until the handler returns (copy or
// move what stays); the writer is kept for as long as the answer takes.
using Handler = std::function<void(const Request&, std::shared_ptr<ResponseWriter>)>;

class Router {
 public:
  // Twice the same method and path, or a placeholder that is not at the end, is a bug of ours.
  void add(std::string method, std::string path, Handler handler);

  // Sets request.path_param and calls the handler, or answers by itself through `format_error`.
  void dispatch(Request& request, std::shared_ptr<ResponseWriter> writer,
                const ErrorFormatter& format_error) const;

 private:
  enum class Kind { kExact, kSegment, kRest };
  struct Method {
    std::string name;
    Handler handler;
  };
  struct Route {
    Kind kind;
    std::string path;  // of a placeholder route: up to and including the last '/'
    std::vector<Method> methods;
  };

  static bool matches(const Route& route, const Request& request, std::string* param);
  static const Handler* find_method(const Route& route, std::string_view method);
  static std::string allow(const Route& route);

  std::vector<Route> routes_;  // exact ones first, then segments, then rests
};

}  // namespace pacer::http
