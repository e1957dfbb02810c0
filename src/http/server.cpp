#include "http/server.h"

#include <pthread.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <unordered_set>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "http/connection.h"
#include "http/listener.h"
#include "http/request_id.h"
#include "http/tls.h"

namespace pacer::http {
namespace {

using Timer = std::shared_ptr<asio::steady_timer>;

// All addresses of `host` here, each once. "[::1]" and "::1" are the same.
Result<std::vector<asio::ip::address>> resolve(const std::string& host, uint16_t port) {
  std::string name = host;
  if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
  asio::io_context io;
  tcp::resolver resolver(io);
  ErrorCode ec;
  const auto found = resolver.resolve(name, "", tcp::resolver::passive, ec);
  std::vector<asio::ip::address> addresses;
  if (!ec && !name.empty()) {
    for (const auto& entry : found) {
      const asio::ip::address address = entry.endpoint().address();
      if (std::find(addresses.begin(), addresses.end(), address) == addresses.end()) {
        addresses.push_back(address);
      }
    }
  }
  if (addresses.empty()) {
    return error(Code::kInvalidArgument, "cannot listen on '{}' port {}: no such host{}{}", host,
                 port, ec ? ": " : "", ec ? ec.message() : "");
  }
  return addresses;
}

// A formatter that fails must not take the server with it.
ErrorFormatter guarded(ErrorFormatter inner) {
  return [inner = std::move(inner)](int status, std::string message) {
    try {
      return inner(status, message);
    } catch (const std::exception& e) {
      log::error("the error formatter threw: {}", e.what());
      return plain_error(status, std::move(message));
    }
  };
}

}  // namespace

struct Server::Impl {
  std::shared_ptr<ServerCore> core = std::make_shared<ServerCore>();
  std::vector<std::shared_ptr<Listener>> listeners;
  std::vector<std::thread> threads;
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work;
  std::unordered_set<Timer> timers;  // of after(); under core->mutex

  uint16_t port = 0;  // of TCP, as bound

  Status listen();
  Status listen_unix();
  Status listen_tcp();
  void run();
  bool on_io_thread() const { return core->io.get_executor().running_in_this_thread(); }
  std::vector<std::shared_ptr<Connection>> connections() const;
};

Status Server::Impl::listen() {
  const ServerOptions& options = core->options;
  if (!options.tcp && options.unix_socket.empty()) {
    return error(Code::kInvalidArgument,
                 "there is nothing to listen on: no TCP and no unix socket");
  }
  if (!options.unix_socket.empty()) TRY(listen_unix());
  return options.tcp ? listen_tcp() : Ok{};
}

Status Server::Impl::listen_unix() {
  auto listener = std::make_shared<Listener>(core, nullptr);
  TRY(listener->open_unix(core->options.unix_socket));
  listeners.push_back(std::move(listener));
  return Ok{};
}

Status Server::Impl::listen_tcp() {
  const ServerOptions& options = core->options;
  std::shared_ptr<TlsContext> tls;
  if (!options.tls_certificate_file.empty() || !options.tls_key_file.empty()) {
    ASSIGN_OR_RETURN(tls, make_tls_context(options.tls_certificate_file, options.tls_key_file));
  }
  ASSIGN_OR_RETURN(const auto addresses, resolve(options.host, options.port));
  port = options.port;
  const size_t before = listeners.size();
  for (const asio::ip::address& address : addresses) {
    auto listener = std::make_shared<Listener>(core, tls);
    const ErrorCode ec = listener->open({address, port}, addresses.size() > 1);
    if (ec) {
      // A name may have an address of a family that this machine does not speak; one that works is
      // enough.
      const bool is_taken = ec == asio::error::address_in_use || ec == asio::error::access_denied;
      if (addresses.size() > 1 && !is_taken) continue;
      return error(is_taken ? Code::kExhausted : Code::kIo, "cannot listen on {} port {}: {}",
                   options.host, port, ec.message());
    }
    port = listener->port();
    listeners.push_back(std::move(listener));
  }
  if (listeners.size() == before) {
    return error(Code::kIo, "cannot listen on {} port {}: none of its addresses is usable here",
                 options.host, options.port);
  }
  return Ok{};
}

// What an I/O thread does. Our code does not throw; what escapes from a library ends one
// connection, not the server.
void Server::Impl::run() {
  pthread_setname_np(pthread_self(), "pacer-io");
  for (;;) {
    try {
      core->io.run();
      return;
    } catch (const std::exception& e) {
      log::error("an I/O handler threw: {}", e.what());
    }
  }
}

// Held outside the lock: a connection's end takes the same mutex.
std::vector<std::shared_ptr<Connection>> Server::Impl::connections() const {
  std::vector<std::shared_ptr<Connection>> out;
  const std::lock_guard lock(core->mutex);
  for (const auto& [key, weak] : core->connections) {
    if (auto connection = weak.lock()) out.push_back(std::move(connection));
  }
  return out;
}

Result<std::unique_ptr<Server>> Server::start(ServerOptions options, Router router,
                                              ErrorFormatter format_error) {
  CHECK(options.io_threads > 0, "io_threads is 0");
  CHECK(options.max_header_bytes >= 256, "max_header_bytes is {}", options.max_header_bytes);
  if (options.max_body_bytes > options.max_body_bytes_total) {
    return error(Code::kInvalidArgument,
                 "a body may have {} bytes, which is more than the {} that all may have together",
                 options.max_body_bytes, options.max_body_bytes_total);
  }
  if (!options.make_request_id) options.make_request_id = random_request_id;
  auto impl = std::make_unique<Impl>();
  impl->core->body_budget.set_limit(options.max_body_bytes_total);
  ASSIGN_OR_RETURN(impl->core->cors, Cors::make(options.allowed_origins));
  impl->core->options = std::move(options);
  impl->core->router = std::make_shared<const Router>(std::move(router));
  impl->core->format_error =
      std::make_shared<const ErrorFormatter>(guarded(std::move(format_error)));
  TRY(impl->listen());
  impl->work.emplace(impl->core->io.get_executor());
  for (const auto& listener : impl->listeners) listener->start();
  for (uint32_t i = 0; i < impl->core->options.io_threads; ++i) {
    impl->threads.emplace_back([impl = impl.get()] { impl->run(); });
  }
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() {
  stop();
}

void Server::set_router(Router router) {
  auto replacement = std::make_shared<const Router>(std::move(router));
  const std::lock_guard lock(impl_->core->mutex);
  impl_->core->router.swap(replacement);  // the old one ends outside the lock, or with its requests
}

uint16_t Server::port() const {
  return impl_->port;
}

size_t Server::connection_count() const {
  const std::lock_guard lock(impl_->core->mutex);
  return impl_->core->connections.size();
}

size_t Server::open_request_count() const {
  return impl_->core->open_requests;
}

size_t Server::body_bytes() const {
  return impl_->core->body_budget.used();
}

void Server::stop_accepting() {
  impl_->core->draining = true;
  for (const auto& listener : impl_->listeners) listener->close();
  for (const auto& connection : impl_->connections()) connection->drain();
}

void Server::stop() {
  if (impl_->threads.empty()) return;
  CHECK(!impl_->on_io_thread(), "stop() from an I/O thread would wait for itself");
  stop_accepting();
  {
    const std::lock_guard lock(impl_->core->mutex);
    impl_->core->stopped = true;
    for (const Timer& timer : impl_->timers) timer->cancel();
  }
  for (const auto& connection : impl_->connections()) connection->stop();
  // With every socket and timer closed the threads run out of work: what is queued, on_gone above
  // all, still runs.
  impl_->work.reset();
  for (std::thread& thread : impl_->threads) thread.join();
  impl_->threads.clear();
}

void Server::after(Duration delay, std::function<void()> f) {
  const std::lock_guard lock(impl_->core->mutex);
  if (impl_->core->stopped) return;
  auto timer = std::make_shared<asio::steady_timer>(impl_->core->io, delay);
  impl_->timers.insert(timer);
  timer->async_wait([impl = impl_.get(), timer, f = std::move(f)](ErrorCode ec) {
    {
      const std::lock_guard inner(impl->core->mutex);
      impl->timers.erase(timer);
      if (ec || impl->core->stopped) return;
    }
    f();
  });
}

}  // namespace pacer::http
