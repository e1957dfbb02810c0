#include "http/connection.h"

#include <algorithm>

#include "base/check.h"
#include "base/log.h"

namespace pacer::http {
namespace {

using boost::beast::http::error;

constexpr size_t kReadBytes = 8u << 10;
constexpr size_t kWatchBytes = 512;  // while a response is pending: mostly nothing comes
constexpr Duration kPollInterval = std::chrono::milliseconds(250);

TimePoint now() {
  return std::chrono::steady_clock::now();
}

}  // namespace

Connection::Connection(std::shared_ptr<ServerCore> core, Socket socket, Strand strand,
                       std::shared_ptr<TlsContext> tls)
    : core_(std::move(core)),
      strand_(std::move(strand)),
      stream_(std::move(socket), std::move(tls)),
      in_(core_->options.max_header_bytes),
      body_share_(core_->body_budget),
      deadline_timer_(strand_),
      ping_timer_(strand_),
      watch_timer_(strand_) {}

Connection::~Connection() {
  if (phase_ != Phase::kClosed) drop(Parting::kClose);
}

void Connection::start() {
  asio::post(strand_, [self = shared_from_this()] {
    if (self->phase_ == Phase::kClosed) return;
    self->stream_.send_without_delay();
    self->set_deadline(self->core_->options.header_timeout);
    if (self->stream_.needs_handshake()) return self->start_handshake();
    self->start_read();
  });
}

void Connection::refuse() {
  asio::post(strand_, [self = shared_from_this()] {
    if (self->phase_ == Phase::kClosed) return;
    self->set_deadline(self->core_->options.header_timeout);
    self->refused_ = true;
    if (self->stream_.needs_handshake()) return self->start_handshake();
    self->say_refused();
  });
}

void Connection::say_refused() {
  fail(503, fmt::format("the server has {} connections open, its limit",
                        core_->options.max_connections));
  watch_peer();
}

void Connection::drain() {
  asio::post(strand_, [self = shared_from_this()] {
    if (self->phase_ == Phase::kHandshake) self->drop(Parting::kClose);
    if (self->phase_ == Phase::kIdle && self->in_.size() == 0) self->linger();
  });
}

void Connection::stop() {
  asio::post(strand_, [self = shared_from_this()] { self->drop(Parting::kClose); });
}

void Connection::start_handshake() {
  phase_ = Phase::kHandshake;
  stream_.async_handshake([self = shared_from_this()](ErrorCode ec) { self->on_handshake(ec); });
}

void Connection::on_handshake(ErrorCode ec) {
  if (phase_ == Phase::kClosed) return;
  if (ec && !Stream::is_plain_http(ec)) return drop(Parting::kClose);
  phase_ = Phase::kIdle;
  if (ec) {
    stream_.become_plain();
    fail(400, "this port speaks TLS: the address starts with https://");
    return watch_peer();
  }
  if (refused_) return say_refused();
  set_deadline(core_->options.header_timeout);
  start_read();
}

void Connection::start_read() {
  CHECK(!reading_, "two reads at once, phase {}", static_cast<int>(phase_));
  const size_t room = in_.max_size() - in_.size();
  CHECK(room > 0, "no room to read, phase {}", static_cast<int>(phase_));
  reading_ = true;
  const size_t wanted = phase_ == Phase::kResponding ? kWatchBytes : kReadBytes;
  stream_.async_read_some(
      in_.prepare(std::min(wanted, room)),
      [self = shared_from_this()](ErrorCode ec, size_t bytes) { self->on_read(ec, bytes); });
}

void Connection::on_read(ErrorCode ec, size_t bytes) {
  reading_ = false;
  if (phase_ == Phase::kClosed) return;
  // finish_response() and linger() call the watching read back, and go on reading.
  const bool called_back =
      ec == asio::error::operation_aborted && (phase_ == Phase::kIdle || phase_ == Phase::kLinger);
  if (ec && !called_back) return on_read_error(ec);
  in_.commit(bytes);
  advance();
}

void Connection::on_read_error(ErrorCode ec) {
  // It closed behind requests that are here already: they are answered.
  if (phase_ == Phase::kIdle && ec == asio::error::eof && in_.size() > 0) {
    peer_eof_ = true;
    return advance();
  }
  if (phase_ != Phase::kResponding) return drop(Parting::kClose);
  // A peer may close its sending side once it has asked, so a response that is ready is still sent
  // to it. One that is still being worked on is not: nobody can tell such a peer from one that
  // left.
  if (exchange_->complete() && ec == asio::error::eof) {
    peer_eof_ = true;
    return;
  }
  drop(Parting::kClose);
}

void Connection::advance() {
  if (phase_ == Phase::kIdle) begin_request();
  if (phase_ == Phase::kHeader) parse_header();
  if (phase_ == Phase::kBody) parse_body();
  if (phase_ == Phase::kLinger) in_.clear();
  if (phase_ == Phase::kClosed || reading_) return;
  if (phase_ == Phase::kResponding) return watch_peer();
  start_read();
}

void Connection::begin_request() {
  // RFC 9112, 2.2: empty lines before a request line are skipped.
  while (in_.size() > 0) {
    const char c = *static_cast<const char*>(in_.data().data());
    if (c != '\r' && c != '\n') break;
    in_.consume(1);
  }
  if (in_.size() == 0) return;
  phase_ = Phase::kHeader;
  set_deadline(core_->options.header_timeout);
  parser_.emplace();
  parser_->header_limit(static_cast<uint32_t>(core_->options.max_header_bytes));
  parser_->body_limit(core_->options.max_body_bytes);
  header_bytes_ = 0;
  request_ = {};
  framing_ = {};
}

void Connection::parse_header() {
  ErrorCode ec;
  const size_t used = parser_->put(in_.data(), ec);
  in_.consume(used);
  header_bytes_ += used;
  const bool incomplete = ec == error::need_more;
  const size_t seen = header_bytes_ + (incomplete ? in_.size() : 0);
  const size_t limit = core_->options.max_header_bytes;
  if (seen > limit || (incomplete && seen == limit)) ec = error::header_limit;
  if (ec == error::need_more) return;
  if (ec) return on_parse_error(ec);
  on_header();
}

void Connection::parse_body() {
  while (!parser_->is_done()) {
    if (in_.size() == 0) return;
    ErrorCode ec;
    const size_t used = parser_->put(in_.data(), ec);
    in_.consume(used);
    if (!take_body_bytes()) return;
    if (ec == error::need_more) {
      if (in_.size() < in_.max_size()) return;
      return fail(431, fmt::format("a chunk's header or the trailer is over {} bytes", in_.size()));
    }
    if (ec) return on_parse_error(ec);
  }
  end_reading();
  dispatch();
}

void Connection::on_parse_error(ErrorCode ec) {
  if (ec == error::header_limit) {
    return fail(431, fmt::format("the request's header is over the limit of {} bytes",
                                 core_->options.max_header_bytes));
  }
  if (ec == error::body_limit) {
    return fail(413, fmt::format("the request's body is over the limit of {} bytes",
                                 core_->options.max_body_bytes));
  }
  fail(400, fmt::format("this is not an HTTP/1.1 request: {}", ec.message()));
}

void Connection::watch_peer() {
  if (reading_) return;
  if (peer_eof_) {
    // A pipelined request behind which the peer has closed: as on_read_error() has it.
    if (!exchange_->complete()) drop(Parting::kClose);
    return;
  }
  if (in_.size() < in_.max_size()) return start_read();
  watch_peer_by_polling();
}

// The peer pipelines more than we keep. Reading on would be unbounded, and without reading no end
// of file is seen; so ask the kernel now and then whether the peer has closed.
void Connection::watch_peer_by_polling() {
  watch_timer_.expires_after(kPollInterval);
  watch_timer_.async_wait([self = shared_from_this()](ErrorCode ec) {
    if (ec || self->phase_ != Phase::kResponding || self->reading_) return;
    if (!self->stream_.peer_closed()) return self->watch_peer_by_polling();
    if (self->exchange_->complete()) return;
    self->drop(Parting::kClose);
  });
}

void Connection::set_deadline(Duration d) {
  deadline_ = now() + d;
  if (!deadline_armed_ || deadline_ < deadline_timer_.expiry()) arm_deadline_timer();
}

// The request is read, and its answer is not begun. What may still be on its way out is a 100 that
// the peer does not take: without a deadline nothing would ever end this connection.
void Connection::end_reading() {
  if (writing_) return set_deadline(core_->options.write_timeout);
  clear_deadline();
}

void Connection::arm_deadline_timer() {
  deadline_armed_ = true;
  deadline_timer_.expires_at(deadline_);
  deadline_timer_.async_wait([self = shared_from_this()](ErrorCode ec) {
    if (ec || self->phase_ == Phase::kClosed) return;
    self->deadline_armed_ = false;
    if (self->deadline_ == TimePoint::max()) return;
    if (self->deadline_ > now()) return self->arm_deadline_timer();  // it was moved
    self->clear_deadline();
    self->on_deadline();
  });
}

void Connection::on_deadline() {
  const ServerOptions& options = core_->options;
  switch (phase_) {
    case Phase::kHeader:
      return fail(408, fmt::format("the request's header took longer than {} s",
                                   seconds(options.header_timeout)));
    case Phase::kBody:
      return fail(408, fmt::format("the request's body took longer than {} s",
                                   seconds(options.body_timeout)));
    case Phase::kResponding:
      log::warn("a reader took nothing for {} s; dropped", seconds(options.write_timeout));
      return drop(Parting::kReset);
    case Phase::kIdle:
      return linger();
    case Phase::kHandshake:
    case Phase::kLinger:
      return drop(Parting::kClose);
    case Phase::kClosed:
      return;
  }
}

// Closing with unread input makes the kernel send a reset, which can destroy the response on its
// way. So close our side, and read on until the peer closes its own, or for a short while.
void Connection::linger() {
  phase_ = Phase::kLinger;
  in_.clear();
  set_deadline(core_->options.linger_timeout);
  stream_.close_sending(shared_from_this());
  if (!reading_) start_read();
}

void Connection::drop(Parting parting) {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosed;
  stream_.close(parting);
  deadline_timer_.cancel();
  ping_timer_.cancel();
  watch_timer_.cancel();
  {
    const std::lock_guard lock(core_->mutex);
    core_->connections.erase(this);
  }
  if (!exchange_) return end_request();
  --core_->open_requests;
  const std::shared_ptr<Exchange> exchange = std::move(exchange_);
  exchange_.reset();
  exchange->peer_gone();
  end_request();
}

}  // namespace pacer::http
