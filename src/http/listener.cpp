#include "http/listener.h"

#include <netinet/in.h>

#include "base/log.h"

namespace pacer::http {
namespace {

constexpr Duration kRetryAfter = std::chrono::milliseconds(100);
constexpr int kBacklog = 4096;  // the kernel caps it at net.core.somaxconn

// So many may be told "503" at once; beyond, they are closed without a word, or refusing would cost
// what serving does.
constexpr size_t kRefusalsMax = 64;

}  // namespace

Listener::Listener(std::shared_ptr<ServerCore> core, std::shared_ptr<TlsContext> tls)
    : core_(std::move(core)),
      tls_(std::move(tls)),
      strand_(asio::make_strand(core_->io)),
      acceptor_(strand_),
      retry_timer_(strand_) {}

ErrorCode Listener::open(const tcp::endpoint& endpoint, bool only_v6) {
  ErrorCode ec;
  acceptor_.open(endpoint.protocol(), ec);
  if (!ec) acceptor_.set_option(Acceptor::reuse_address(true), ec);
  if (!ec && endpoint.address().is_v6()) {
    acceptor_.set_option(asio::ip::v6_only(only_v6), ec);
  }
  if (!ec) acceptor_.bind(endpoint, ec);
  if (!ec) acceptor_.listen(kBacklog, ec);
  if (ec) return ec;
  const Endpoint bound = acceptor_.local_endpoint(ec);
  const sockaddr* address = bound.data();
  port_ =
      ntohs(endpoint.address().is_v6() ? reinterpret_cast<const sockaddr_in6*>(address)->sin6_port
                                       : reinterpret_cast<const sockaddr_in*>(address)->sin_port);
  return ec;
}

Status Listener::open_unix(const std::string& path) {
  TRY(clear_unix_socket_path(path));
  ErrorCode ec;
  acceptor_.open(asio::local::stream_protocol(), ec);
  if (!ec) acceptor_.bind(asio::local::stream_protocol::endpoint(path), ec);
  if (!ec) {
    TRY(file_.adopt(path));
    acceptor_.listen(kBacklog, ec);
  }
  if (!ec) return Ok{};
  return error(Code::kIo, "cannot listen on the unix socket '{}': {}", path, ec.message());
}

void Listener::start() {
  asio::post(strand_, [self = shared_from_this()] { self->accept(); });
}

void Listener::close() {
  asio::post(strand_, [self = shared_from_this()] {
    ErrorCode ignored;
    self->acceptor_.close(ignored);
    self->file_.remove();
    self->retry_timer_.cancel();
  });
}

void Listener::accept() {
  if (!acceptor_.is_open()) return;
  Strand strand = asio::make_strand(core_->io);
  acceptor_.async_accept(strand, asio::bind_executor(strand_, [self = shared_from_this(), strand](
                                                                  ErrorCode ec, auto socket) {
                           self->on_accept(ec, Socket(std::move(socket)), strand);
                         }));
}

void Listener::on_accept(ErrorCode ec, Socket socket, Strand strand) {
  if (!acceptor_.is_open()) return;
  if (!ec) {
    failing_ = false;
    admit(std::move(socket), std::move(strand));
    return accept();
  }
  if (ec == asio::error::connection_aborted) return accept();  // left before we came to it
  if (!failing_) log::warn("cannot accept a connection: {}; trying again", ec.message());
  failing_ = true;
  retry_timer_.expires_after(kRetryAfter);
  retry_timer_.async_wait([self = shared_from_this()](ErrorCode cancelled) {
    if (!cancelled) self->accept();
  });
}

void Listener::admit(Socket socket, Strand strand) {
  auto connection = std::make_shared<Connection>(core_, std::move(socket), std::move(strand), tls_);
  size_t count = 0;
  bool stopped = false;
  {
    const std::lock_guard lock(core_->mutex);
    stopped = core_->stopped;
    if (!stopped) core_->connections.emplace(connection.get(), connection);
    count = core_->connections.size();
  }
  const size_t limit = core_->options.max_connections;
  if (stopped || count > limit + kRefusalsMax) {
    connection->stop();
  } else if (count > limit) {
    connection->refuse();
  } else {
    connection->start();
  }
}

}  // namespace pacer::http
