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
  uint32_t io_threads = 4;         // one that parses a big request must not keep /health waiting

  // More than this in a request's body is a 413, in its request line and fields a 431. The second
  // also bounds the bytes kept of pipelined requests.
  size_t max_body_bytes = 8u << 20;
  size_t max_header_bytes = 16u << 10;
  // One connection more is answered 503 and closed.
  size_t max_connections = 1024;
  // Of one stream. With more waiting, its reader is too slow, and dropped.
  size_t max_write_buffer_bytes = 1u << 20;

  // From a request's first byte to the end of its header, and from there to the end of its body:
  // then 408. Also from a connection's start to its first byte: then closed without a word.
  Duration header_timeout = std::chrono::seconds(10);
  Duration body_timeout = std::chrono::seconds(30);
  // Between requests of one connection: then closed.
  Duration idle_timeout = std::chrono::seconds(75);
  // The peer takes not one byte of what waits for it: then dropped.
  Duration write_timeout = std::chrono::seconds(30);
  // After the last answer, for the peer to read it and close.
  Duration linger_timeout = std::chrono::seconds(2);
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
