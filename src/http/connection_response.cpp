// The second half of a connection: from a whole request to the last byte of its response.
#include <algorithm>

#include "base/log.h"
#include "http/connection.h"

namespace pacer::http {
namespace {

TimePoint now() {
  return std::chrono::steady_clock::now();
}

std::string_view view(boost::beast::string_view s) {
  return {s.data(), s.size()};
}

// "http://host/path" -> "/path". Other targets stay as they are.
std::string_view origin_form(std::string_view target) {
  const size_t scheme = target.find("://");
  if (target.starts_with('/') || scheme == std::string_view::npos) return target;
  const size_t path = target.find('/', scheme + 3);
  return path == std::string_view::npos ? "/" : target.substr(path);
}

}  // namespace

void Connection::dispatch() {
  Request request;
  std::string why_not;
  const bool valid = fill_request(request, &why_not);
  Exchange::Framing framing;
  framing.is_head = request.method == "HEAD";
  framing.http_1_1 = parser_->get().version() == 11;
  framing.keep_alive = parser_->get().keep_alive();
  framing.max_buffered_bytes = core_->options.max_write_buffer_bytes;
  parser_.reset();
  if (!valid) return fail(400, std::move(why_not));

  std::shared_ptr<ResponseWriter> writer = begin_exchange(framing);
  // Ours do not throw; the libraries that a handler calls may.
  std::shared_ptr<const Router> router;
  {
    const std::lock_guard lock(core_->mutex);
    router = core_->router;
  }
  try {
    router->dispatch(request, writer, *core_->format_error);
  } catch (const std::exception& e) {
    log::error("the handler of {} {} threw: {}", request.method, request.path, e.what());
    writer->send((*core_->format_error)(500, "the server failed on this request"));
  }
}

bool Connection::fill_request(Request& request, std::string* why_not) {
  auto& message = parser_->get();
  request.method = view(message.method_string());
  request.target = origin_form(view(message.target()));
  const size_t question = request.target.find('?');
  std::optional<std::string> path =
      percent_decode(std::string_view(request.target).substr(0, question));
  if (!path) {
    *why_not = "the path has a '%' that two hex digits do not follow, or an encoded NUL";
    return false;
  }
  request.path = *std::move(path);
  if (question != std::string::npos) request.query = request.target.substr(question + 1);
  for (const auto& f : message) {
    request.headers.add(std::string(view(f.name_string())), std::string(view(f.value())));
  }
  request.body = std::move(message.body());
  ErrorCode ec;
  const auto remote = socket_.remote_endpoint(ec);
  if (!ec) request.remote_address = remote.address().to_string();
  // Now that it is whole: a first byte sent early must not jump the queue, and how long a client
  // took to send is not our latency.
  request.arrived = now();
  return true;
}

std::shared_ptr<ResponseWriter> Connection::begin_exchange(Exchange::Framing framing) {
  phase_ = Phase::kResponding;
  ++core_->open_requests;
  // The strand is copied: by the time it is used, the posted function may own the connection's last
  // reference.
  auto wake = [weak = weak_from_this(), strand = strand_] {
    if (auto self = weak.lock()) {
      asio::post(strand, [self = std::move(self)] { self->flush(); });
    }
  };
  exchange_ = std::make_shared<Exchange>(framing, core_->format_error, std::move(wake));
  return std::make_shared<ResponseWriter>(exchange_);
}

// Answers by itself, and closes afterwards: what else this peer sent cannot be trusted to start at
// a request.
void Connection::fail(int status, std::string message) {
  parser_.reset();
  clear_deadline();
  Exchange::Framing framing;
  framing.keep_alive = false;
  begin_exchange(framing)->send((*core_->format_error)(status, std::move(message)));
}

void Connection::flush() {
  if (phase_ != Phase::kResponding) return;
  if (exchange_->gone())
    return drop(Parting::kReset);  // too slow a reader, or a writer that gave up
  arm_ping();
  if (writing_) return;
  std::optional<Exchange::Piece> piece = exchange_->take(!core_->draining && !peer_eof_);
  if (!piece) return;
  out_ = *std::move(piece);
  out_sent_ = 0;
  start_write();
}

void Connection::start_write() {
  std::array<asio::const_buffer, 3> rest = {asio::buffer(out_.head), asio::buffer(out_.body),
                                            asio::buffer(out_.tail)};
  size_t skip = out_sent_;
  for (asio::const_buffer& piece : rest) {
    const size_t skipped = std::min(skip, piece.size());
    piece += skipped;
    skip -= skipped;
  }
  writing_ = true;
  set_deadline(core_->options.write_timeout);
  socket_.async_write_some(
      rest, [self = shared_from_this()](ErrorCode ec, size_t bytes) { self->on_write(ec, bytes); });
}

void Connection::on_write(ErrorCode ec, size_t bytes) {
  writing_ = false;
  if (phase_ == Phase::kClosed) return;
  if (ec) return drop(Parting::kClose);
  exchange_->sent(bytes);
  out_sent_ += bytes;
  if (out_sent_ < out_.head.size() + out_.body.size() + out_.tail.size()) return start_write();
  clear_deadline();
  if (out_.last) return finish_response();
  flush();
}

void Connection::arm_ping() {
  if (ping_armed_) return;
  const std::optional<Duration> next = exchange_->ping(now());
  if (!next) return;
  ping_armed_ = true;
  ping_timer_.expires_after(*next);
  ping_timer_.async_wait([self = shared_from_this()](ErrorCode ec) {
    self->ping_armed_ = false;
    if (!ec && self->phase_ == Phase::kResponding) self->flush();
  });
}

void Connection::finish_response() {
  const bool close = out_.close || peer_eof_;
  out_ = {};
  exchange_.reset();
  --core_->open_requests;
  ping_timer_.cancel();
  watch_timer_.cancel();
  if (close) return linger();
  phase_ = Phase::kIdle;
  set_deadline(core_->options.idle_timeout);
  if (!reading_) return advance();
  // The watching read is still out. With pipelined bytes here, call it back: its end goes on with
  // them.
  if (in_.size() > 0) {
    ErrorCode ignored;
    socket_.cancel(ignored);
  }
}

}  // namespace pacer::http
