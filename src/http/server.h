// The HTTP/1.1 server: listens, gives each connection its strand, calls the router's handlers, and
// can be drained.
//
// A few I/O threads run everything here; a handler must not wait on them. Owned by cli/, which
// starts it last and stops it first. No TLS and no HTTP/2: a reverse proxy does those.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "http/message.h"
#include "http/router.h"

namespace pacer::http {

struct ServerOptions {
  std::string host = "127.0.0.1";  // an address, or a name: then all addresses it has here
  uint16_t port = 8000;            // 0: any free port
  uint32_t io_threads = 2;

  size_t max_body_bytes = 8u << 20;  // more is a 413
  size_t max_header_bytes =
      16u << 10;  // request line and fields; more is a 431. Also bounds pipelined bytes
  size_t max_connections = 1024;  // one more is answered 503 and closed
  size_t max_write_buffer_bytes =
      1u << 20;  // of one stream; more, and its reader is too slow: dropped

  Duration header_timeout = std::chrono::seconds(10);  // first byte to end of header, then 408
  Duration body_timeout = std::chrono::seconds(30);    // end of header to end of body, then 408
  Duration idle_timeout =
      std::chrono::seconds(75);  // between requests of one connection, then closed
  Duration write_timeout =
      std::chrono::seconds(30);  // the peer takes not one byte of what waits, then dropped
  Duration linger_timeout =
      std::chrono::seconds(2);  // after the last answer: for the peer to read it and close
};

class Server {
 public:
  // Listening when it returns. Address in use, no such address or host: an Error that names host
  // and port.
  static Result<std::unique_ptr<Server>> start(ServerOptions options, Router router,
                                               ErrorFormatter format_error = plain_error);
  ~Server();  // stop()
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  uint16_t port() const;
  size_t connection_count() const;
  size_t open_request_count() const;  // requests whose response is not yet complete

  // Drain: no new connections; idle ones are closed; open requests go on and are the last of their
  // connection.
  void stop_accepting();

  // Drops every connection (on_gone runs for open requests) and joins the I/O threads. Idempotent.
  // Not from a handler.
  void stop();

  // Runs f on an I/O thread after `delay`; not at all if the server stops before. f must not wait.
  void after(Duration delay, std::function<void()> f);

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace pacer::http
