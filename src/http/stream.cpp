#include "http/stream.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>

namespace pacer::http {

Stream::Stream(Socket socket, std::shared_ptr<TlsContext> tls)
    : socket_(std::move(socket)), context_(std::move(tls)), use_tls_(context_ != nullptr) {
  if (use_tls_) tls_.emplace(socket_, *context_);
}

bool Stream::is_plain_http(ErrorCode handshake_error) {
  return handshake_error.category() == asio::error::get_ssl_category() &&
         ERR_GET_REASON(static_cast<unsigned long>(handshake_error.value())) == SSL_R_HTTP_REQUEST;
}

void Stream::close_sending(std::shared_ptr<void> keep_alive) {
  ErrorCode ignored;
  if (!use_tls_) {
    socket_.shutdown(Socket::shutdown_send, ignored);
    return;
  }
  cancel();
  use_tls_ = false;
  // As if the peer had said goodbye already: else the shutdown would wait until it does, and take
  // whatever else it sends for an error.
  SSL_set_shutdown(tls_->native_handle(), SSL_RECEIVED_SHUTDOWN);
  tls_->async_shutdown([this, keep = std::move(keep_alive)](ErrorCode) {
    ErrorCode unused;
    socket_.shutdown(Socket::shutdown_send, unused);
  });
}

void Stream::cancel() {
  ErrorCode ignored;
  socket_.cancel(ignored);
}

void Stream::close(Parting parting) {
  ErrorCode ignored;
  if (parting == Parting::kReset) {
    socket_.set_option(asio::socket_base::linger(true, 0), ignored);
  }
  socket_.close(ignored);
}

void Stream::send_without_delay() {
  ErrorCode ignored;  // a unix socket knows no such option, and no delay
  socket_.set_option(tcp::no_delay(true), ignored);
}

bool Stream::peer_closed() const {
  pollfd peer{const_cast<Socket&>(socket_).native_handle(), POLLRDHUP, 0};
  return poll(&peer, 1, 0) > 0;
}

std::string Stream::remote_address() const {
  ErrorCode ec;
  const Endpoint peer = socket_.remote_endpoint(ec);
  if (ec) return "";
  char text[INET6_ADDRSTRLEN] = "";
  const sockaddr* address = peer.data();
  switch (address->sa_family) {
    case AF_INET:
      inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text,
                sizeof text);
      return text;
    case AF_INET6:
      inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr, text,
                sizeof text);
      return text;
    case AF_UNIX:
      return "unix";
    default:
      return "";
  }
}

}  // namespace pacer::http
