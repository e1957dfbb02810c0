// A blocking HTTP client on a raw socket, for tests only: it can be as slow, rude or broken as a
// test needs.
//
// Every read has a deadline, so a server that hangs fails a test instead of hanging it. Failures
// are gtest failures.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "http/message.h"

namespace pacer::http {

constexpr std::chrono::seconds kTestPatience{20};  // generous: sanitizers on a busy machine

struct TestResponse {
  int status = 0;  // 0: no whole response came
  Headers headers;
  std::string body;  // chunks joined
  bool complete =
      false;  // Content-Length reached, or the last chunk seen, or closed where that ends it

  std::string header(std::string_view name) const {
    const std::string* value = headers.find(name);
    return value == nullptr ? "" : *value;
  }
};

class TestClient {
 public:
  // receive_buffer: 0 leaves the kernel's choice; small makes a reader that is soon full.
  explicit TestClient(uint16_t port, int receive_buffer = 0) {
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (receive_buffer > 0) {
      setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  // Of a unix socket.
  explicit TestClient(const std::string& path) {
    fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), std::min(path.size(), sizeof address.sun_path - 1));
    connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  virtual ~TestClient() { close(); }
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  bool connected() const { return connected_; }

  // False when the peer has closed.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = write_some(bytes);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }

  // "GET", "/path", body: a well-formed HTTP/1.1 request.
  bool request(std::string_view method, std::string_view path, std::string_view body = {},
               std::string_view more_headers = {}) {
    std::string out;
    out.append(method).append(" ").append(path).append(" HTTP/1.1\r\nHost: test\r\n");
    if (!body.empty()) out += "Content-Length: " + std::to_string(body.size()) + "\r\n";
    out.append(more_headers).append("\r\n").append(body);
    return send(out);
  }

  // The next whole response. `head`: of a HEAD request, so without a body.
  TestResponse response(bool head = false) {
    TestResponse out = response_head();
    if (out.status == 0) return out;
    if (head || out.status == 204 || out.status == 304 || out.status < 200) {
      out.complete = true;
    } else if (out.header("Transfer-Encoding") == "chunked") {
      while (const std::optional<std::string> data = chunk()) {
        if (data->empty()) {
          out.complete = true;
          break;
        }
        out.body += *data;
      }
    } else if (const std::string length = out.header("Content-Length"); !length.empty()) {
      const size_t wanted = std::stoul(length);
      while (in_.size() < wanted && fill()) {
      }
      out.complete = in_.size() >= wanted;
      out.body = take(std::min(wanted, in_.size()));
    } else {
      while (fill()) {
      }
      out.complete = true;
      out.body = take(in_.size());
    }
    return out;
  }

  // Status line and fields; the body stays to be read, e.g. by chunk().
  TestResponse response_head() {
    TestResponse out;
    size_t end;
    while ((end = in_.find("\r\n\r\n")) == std::string::npos) {
      if (!fill()) return out;
    }
    const std::string head = take(end + 4);
    size_t line = head.find("\r\n") + 2;
    out.status = std::stoi(head.substr(9, 3));
    for (size_t next; (next = head.find("\r\n", line)) != line; line = next + 2) {
      const std::string field = head.substr(line, next - line);
      const size_t colon = field.find(": ");
      out.headers.add(field.substr(0, colon), field.substr(colon + 2));
    }
    return out;
  }

  // The next chunk's data; empty: the last chunk; nullopt: the stream was cut.
  std::optional<std::string> chunk() {
    size_t eol;
    while ((eol = in_.find("\r\n")) == std::string::npos) {
      if (!fill()) return std::nullopt;
    }
    const size_t size = std::stoul(in_.substr(0, eol), nullptr, 16);
    while (in_.size() < eol + 2 + size + 2) {
      if (!fill()) return std::nullopt;
    }
    std::string data = in_.substr(eol + 2, size);
    take(eol + 2 + size + 2);
    return data;
  }

  // Reads chunks until `text` was among them. False when the stream ended or was cut before.
  bool read_until(std::string_view text) {
    std::string seen;
    while (seen.find(text) == std::string::npos) {
      const std::optional<std::string> data = chunk();
      if (!data || data->empty()) return false;
      seen += *data;
    }
    return true;
  }

  // True once the peer has closed, by end of file or reset; what it sent before is skipped.
  bool closed() {
    while (fill()) {
    }
    return !timed_out_;
  }

  // Nothing comes for that long, and the connection stays open.
  bool quiet_for(std::chrono::milliseconds time) {
    pollfd p{fd_, POLLIN, 0};
    return in_.empty() && !has_pending() && poll(&p, 1, static_cast<int>(time.count())) == 0;
  }

  void close_sending_side() { shutdown(fd_, SHUT_WR); }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  void reset() {  // RST instead of FIN
    const linger now{1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close();
  }

 protected:
  // TlsTestClient puts TLS in between.
  virtual ssize_t write_some(std::string_view bytes) {
    return ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  virtual ssize_t read_some(char* to, size_t size) { return recv(fd_, to, size, 0); }
  virtual bool has_pending() const { return false; }  // read already, and not yet given out

  int fd_ = -1;

 private:
  std::string take(size_t n) {
    std::string out = in_.substr(0, n);
    in_.erase(0, n);
    return out;
  }

  // More bytes into in_. False at the end of the connection, and when patience is over (a failure).
  bool fill() {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(kTestPatience).count();
    pollfd p{fd_, POLLIN, 0};
    if (!has_pending() && poll(&p, 1, static_cast<int>(ms)) == 0) {
      timed_out_ = true;
      ADD_FAILURE() << "nothing came from the server for " << ms << " ms; before: '" << in_ << "'";
      return false;
    }
    char bytes[16384];
    const ssize_t n = read_some(bytes, sizeof bytes);
    if (n <= 0) return false;
    in_.append(bytes, static_cast<size_t>(n));
    return true;
  }

  bool connected_ = false;
  bool timed_out_ = false;
  std::string in_;
};

// Polls until `condition` holds. False when patience is over.
template <class Condition>
bool eventually(Condition condition) {
  const auto until = std::chrono::steady_clock::now() + kTestPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace pacer::http
