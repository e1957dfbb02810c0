#include "http/router.h"

#include <algorithm>

#include "base/check.h"

namespace pacer::http {
namespace {

// For an error message: printable ASCII and not long, whatever the peer sent.
std::string printable(std::string_view text) {
  constexpr size_t kShown = 200;
  std::string out(text.substr(0, kShown));
  for (char& c : out) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  if (text.size() > kShown) out += "...";
  return out;
}

std::string_view raw_path(const RequestHead& head) {
  return std::string_view(head.target).substr(0, head.target.find('?'));
}

}  // namespace

void Router::add(std::string method, std::string path, Handler handler, Gate gate) {
  CHECK(path.starts_with('/'), "route '{}' does not start with '/'", path);
  Kind kind = Kind::kExact;
  if (const size_t brace = path.find('{'); brace != std::string::npos) {
    CHECK(path[brace - 1] == '/' && path.ends_with('}') && path.find('/', brace) == path.npos,
          "route '{}': a placeholder must be the whole last segment", path);
    kind = path.ends_with("...}") ? Kind::kRest : Kind::kSegment;
    path.resize(brace);
  }
  auto route = std::find_if(routes_.begin(), routes_.end(),
                            [&](const Route& r) { return r.kind == kind && r.path == path; });
  if (route == routes_.end()) {
    // The longer path is the more particular one, so it is asked first.
    const auto after = std::find_if(routes_.begin(), routes_.end(), [&](const Route& r) {
      return r.kind > kind || (r.kind == kind && r.path.size() < path.size());
    });
    route = routes_.insert(after, Route{kind, std::move(path), {}});
  }
  const bool known = std::any_of(route->methods.begin(), route->methods.end(),
                                 [&](const Method& m) { return m.name == method; });
  CHECK(!known, "route {} {} added twice", method, route->path);
  route->methods.push_back(Method{std::move(method), std::move(handler), std::move(gate)});
}

void Router::dispatch(Request& request, std::shared_ptr<ResponseWriter> writer,
                      const ErrorFormatter& format_error) const {
  const bool options = request.method == "OPTIONS";
  for (const Route& route : routes_) {
    if (!matches(route, request, &request.path_param)) continue;
    if (const Method* method = find_method(route, request.method)) {
      return method->handler(request, std::move(writer));
    }
    Response response =
        options ? Response{204, {}, {}}
                : format_error(405, fmt::format("method {} is not allowed for {}; use {}",
                                                printable(request.method),
                                                printable(raw_path(request)), allow(route)));
    response.headers.set("Allow", allow(route));
    return writer->send(std::move(response));
  }
  if (options && request.target == "*") {
    return writer->send(Response{204, {{"Allow", "GET, HEAD, POST, DELETE, OPTIONS"}}, {}});
  }
  writer->send(format_error(404, fmt::format("there is no {} here", printable(raw_path(request)))));
}

std::optional<Response> Router::refuse(RequestHead& head) const {
  const Gate* gate = &unmatched_gate_;
  for (const Route& route : routes_) {
    if (!matches(route, head, &head.path_param)) continue;
    if (const Method* method = find_method(route, head.method)) gate = &method->gate;
    break;
  }
  return *gate ? (*gate)(head) : std::nullopt;
}

bool Router::matches(const Route& route, const RequestHead& head, std::string* param) {
  switch (route.kind) {
    case Kind::kExact:
      return head.path == route.path;
    case Kind::kRest:
      if (!head.path.starts_with(route.path) || head.path.size() == route.path.size()) {
        return false;
      }
      *param = head.path.substr(route.path.size());
      return true;
    case Kind::kSegment:
      break;
  }
  // On the path as sent, since an encoded slash is part of its segment.
  const std::string_view raw = raw_path(head);
  const size_t segment = raw.rfind('/') + 1;
  if (segment == raw.size() || percent_decode(raw.substr(0, segment)) != route.path) return false;
  std::optional<std::string> decoded = percent_decode(raw.substr(segment));
  if (!decoded) return false;
  *param = *std::move(decoded);
  return true;
}

const Router::Method* Router::find_method(const Route& route, std::string_view method) {
  const Method* get = nullptr;
  for (const Method& m : route.methods) {
    if (m.name == method) return &m;
    if (m.name == "GET") get = &m;
  }
  return method == "HEAD" ? get : nullptr;
}

std::string Router::allow(const Route& route) {
  std::string out;
  const auto list = [&](std::string_view name) {
    if (!out.empty()) out += ", ";
    out += name;
  };
  for (const Method& m : route.methods) {
    if (m.name == "OPTIONS" || m.name == "HEAD") continue;
    list(m.name);
  }
  if (find_method(route, "HEAD") != nullptr) list("HEAD");
  list("OPTIONS");
  return out;
}

}  // namespace pacer::http
