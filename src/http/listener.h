// One listening socket, TCP or unix: accepts connections until it is closed.
//
// Enforces the connection limit. When the process is out of file descriptors it waits and tries
// again instead of spinning: the connection that could not be accepted stays ready, so accept would
// fail at once, again and again.
#pragma once

#include <memory>

#include "base/result.h"
#include "http/connection.h"
#include "http/unix_socket.h"

namespace pacer::http {

class Listener : public std::enable_shared_from_this<Listener> {
 public:
  // tls: null where none is spoken.
  Listener(std::shared_ptr<ServerCore> core, std::shared_ptr<TlsContext> tls);

  // Binds and listens. only_v6: leave the IPv4 side of "::" alone, since another listener has it.
  ErrorCode open(const tcp::endpoint& endpoint, bool only_v6);
  Status open_unix(const std::string& path);
  uint16_t port() const { return port_; }  // 0: unix

  // From any thread.
  void start();
  void close();

 private:
  void accept();
  void on_accept(ErrorCode ec, Socket socket, Strand strand);
  void admit(Socket socket, Strand strand);

  const std::shared_ptr<ServerCore> core_;
  const std::shared_ptr<TlsContext> tls_;
  const Strand strand_;  // of the acceptor; each connection has its own
  Acceptor acceptor_;
  UnixSocketFile file_;
  asio::steady_timer retry_timer_;
  uint16_t port_ = 0;     // as bound
  bool failing_ = false;  // a warning was logged for this streak of failures
};

}  // namespace pacer::http
