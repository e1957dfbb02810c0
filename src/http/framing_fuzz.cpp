// libFuzzer entry: what a peer sends over one connection, as the server would read it.
//
// The input goes through a real Connection over a socket pair, on this thread, twice: at once, and
// in small pieces. Both must be understood as the same requests and get the same answers; every
// answer is whole and has an id; and in the end nothing is open or held. Limits are small, so that
// short inputs reach them.
//
// CONTRIBUTING.md says how to run it; tests/fuzz/http/ is what it starts from, and what ctest
// replays.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "http/connection.h"

namespace pacer::http {
namespace {

struct Outcome {
  std::vector<std::string> requests;  // as handlers and gates saw them
  std::vector<int> statuses;          // of the answers, without 100
  bool operator==(const Outcome&) const = default;
};

std::string describe(const RequestHead& head) {
  std::string out = head.method + " " + head.path + " " + head.path_param + " " + head.query + " " +
                    query_value(head.query, "q").value_or("-");
  for (const auto& [name, value] : head.headers) out.append("|").append(name).append(":") += value;
  return out;
}

// Answers without bodies: then what the peer gets is a row of heads.
Router make_router(Outcome& outcome) {
  Router router;
  const Handler handler = [&outcome](const Request& request,
                                     std::shared_ptr<ResponseWriter> writer) {
    outcome.requests.push_back(describe(request) + "||" + request.body);
    writer->send(Response{200, {}, ""});
  };
  const Gate gate = [&outcome](const RequestHead& head) -> std::optional<Response> {
    outcome.requests.push_back("gate " + describe(head));
    if (head.headers.find("Key") != nullptr) return std::nullopt;
    return Response{401, {}, ""};
  };
  for (const char* method : {"GET", "POST"}) {
    router.add(method, "/open", handler);
    router.add(method, "/kept/{id...}", handler, gate);
  }
  return router;
}

std::shared_ptr<ServerCore> make_core() {
  auto core = std::make_shared<ServerCore>();
  core->options.max_header_bytes = 256;
  core->options.max_body_bytes = 600;
  core->options.max_body_bytes_total = 800;
  core->options.make_request_id = [] { return std::string("fresh"); };
  core->body_budget.set_limit(core->options.max_body_bytes_total);
  core->cors = *Cors::make({"https://a.example"});
  core->format_error = std::make_shared<const ErrorFormatter>([](int status, const std::string&) {
    return Response{status, {}, ""};
  });
  return core;
}

// One connection's life, over a socket pair.
class Peer {
 public:
  explicit Peer(std::shared_ptr<ServerCore> core) : core_(std::move(core)) {
    int fds[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0,
          "socketpair() failed");
    fd_ = fds[0];
    Strand strand = asio::make_strand(core_->io);
    Socket socket(strand, asio::generic::stream_protocol(AF_UNIX, 0), fds[1]);
    auto connection = std::make_shared<Connection>(core_, std::move(socket), strand, nullptr);
    core_->connections.emplace(connection.get(), connection);
    connection->start();
  }
  ~Peer() { ::close(fd_); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n < 0 && errno != EAGAIN) return;  // the server has closed
      if (n > 0) bytes.remove_prefix(static_cast<size_t>(n));
      let_server_work();
    }
  }

  // All that came back, until the server has closed.
  std::string finish() {
    shutdown(fd_, SHUT_WR);
    let_server_work();
    CHECK(core_->connections.empty(), "a connection is open whose peer has closed");
    return received_;
  }

 private:
  void let_server_work() {
    for (;;) {
      core_->io.restart();
      const size_t handled = core_->io.poll();
      char bytes[4096];
      ssize_t n;
      while ((n = recv(fd_, bytes, sizeof bytes, 0)) > 0) {
        received_.append(bytes, static_cast<size_t>(n));
      }
      if (handled == 0) return;
    }
  }

  const std::shared_ptr<ServerCore> core_;
  int fd_ = -1;
  std::string received_;
};

size_t count(std::string_view text, std::string_view what) {
  size_t n = 0;
  for (size_t at = 0; (at = text.find(what, at)) != text.npos; at += what.size()) ++n;
  return n;
}

std::vector<int> statuses_of(std::string_view answers) {
  std::vector<int> out;
  while (!answers.empty()) {
    const size_t end = answers.find("\r\n\r\n");
    CHECK(end != answers.npos && answers.starts_with("HTTP/1.1 "), "not a whole answer: '{}'",
          answers);
    const std::string_view head = answers.substr(0, end + 2);
    answers.remove_prefix(end + 4);
    const int status = std::stoi(std::string(head.substr(9, 3)));
    if (status == 100) continue;
    CHECK(count(head, "\r\nX-Request-Id: ") == 1, "an answer without an id: '{}'", head);
    out.push_back(status);
  }
  return out;
}

Outcome serve(std::string_view input, size_t piece) {
  static const std::shared_ptr<ServerCore> core = make_core();
  Outcome outcome;
  core->router = std::make_shared<const Router>(make_router(outcome));
  Peer peer(core);
  for (; !input.empty(); input.remove_prefix(std::min(piece, input.size()))) {
    peer.send(input.substr(0, piece));
  }
  outcome.statuses = statuses_of(peer.finish());
  CHECK(core->open_requests == 0, "{} requests are open", core->open_requests.load());
  CHECK(core->body_budget.used() == 0, "{} bytes of bodies are held", core->body_budget.used());
  return outcome;
}

// What never ends may be found wrong early (400), or late (431; 413 for a chunk's open quote, which
// Beast counts each time it looks), or not before the peer leaves (no answer): that depends on how
// it comes. It is the last thing said in any case.
Outcome without_last_refusal(Outcome outcome) {
  std::vector<int>& statuses = outcome.statuses;
  const int last = statuses.empty() ? 0 : statuses.back();
  if (last == 400 || last == 413 || last == 431) statuses.pop_back();
  return outcome;
}

std::string text(const Outcome& outcome) {
  std::string out;
  for (const std::string& request : outcome.requests) out.append("\n  ") += request;
  for (const int status : outcome.statuses) out.append(" ") += std::to_string(status);
  return out;
}

// At once and in pieces.
void check_one(std::string_view input) {
  const Outcome whole = serve(input, std::max<size_t>(input.size(), 1));
  const Outcome pieces = serve(input, 1 + input.size() % 13);
  CHECK(without_last_refusal(whole) == without_last_refusal(pieces), "at once:{}\nin pieces:{}",
        text(whole), text(pieces));
}

}  // namespace
}  // namespace pacer::http

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pacer::http::check_one({reinterpret_cast<const char*>(data), size});
  return 0;
}
