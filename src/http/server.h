// The HTTP/1.1 server: listens, gives each connection its strand, calls the router's handlers, and
// can be drained.
//
// A few I/O threads run everything here; a handler must not wait on them. Owned by cli/, which
// starts it before the model is loaded, with a router that says so, and stops it first. TCP, TLS
// and a unix socket; CORS and X-Request-Id on every response. No HTTP/2: a reverse proxy does that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "http/message.h"
#include "http/router.h"

namespace pacer::http {

struct ServerOptions {
  std::string host = "127.0.0.1";  // an address, or a name: then all addresses it has here
  uint16_t port = 8000;            // 0: any free port
  bool tcp = true;                 // false: only the unix socket

  // A path to listen on besides host and port; mode 0660. A stale socket there is replaced; one
  // that answers, or another kind of file, is refused. Removed when the server stops accepting.
  std::string unix_socket;

  // PEM; both or neither. With them host and port speak TLS 1.2 or later, and nothing else does.
  // The certificate file may go on with the chain.
  std::string tls_certificate_file;
  std::string tls_key_file;

  // CORS: the pages that may read our answers, as "https://host:port", or "*". Empty: no CORS.
  std::vector<std::string> allowed_origins;

  // Where ids of requests that bring none come from. Empty: 128 random bits in hex.
  std::function<std::string()> make_request_id;

  uint32_t io_threads = 4;  // one that parses a big request must not keep /health waiting

  // More than this in a request's body is a 413, in its request line and fields a 431. The second
  // also bounds the bytes kept of pipelined requests.
  size_t max_body_bytes = 8u << 20;
  size_t max_header_bytes = 16u << 10;
  // Of all bodies being read or handled together; one that does not fit is answered 503 with
  // Retry-After. At least max_body_bytes.
  size_t max_body_bytes_total = 256u << 20;
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
  // Listening when it returns. Else an Error that names host and port: kExhausted where the port is
  // taken or not for us (another may be free), kIo or kInvalidArgument where the address or another
  // option is wrong.
  static Result<std::unique_ptr<Server>> start(ServerOptions options, Router router,
                                               ErrorFormatter format_error = plain_error);
  ~Server();  // stop()
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // What later requests meet. Those whose header has been read keep the router they came to, gate
  // and handler both, until they end. From any thread.
  void set_router(Router router);

  uint16_t port() const;  // 0 without tcp
  size_t connection_count() const;
  size_t open_request_count() const;  // requests whose response is not yet complete
  size_t body_bytes() const;          // held now, of max_body_bytes_total

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
