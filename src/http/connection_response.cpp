// The last part of a connection: from the handler's first word to the last byte of the response.
#include <algorithm>

#include "http/connection.h"

namespace pacer::http {
namespace {

TimePoint now() {
  return std::chrono::steady_clock::now();
}

}  // namespace

std::shared_ptr<ResponseWriter> Connection::begin_exchange() {
  phase_ = Phase::kResponding;
  ++core_->open_requests;
  framing_.max_buffered_bytes = core_->options.max_write_buffer_bytes;
  // The strand is copied: by the time it is used, the posted function may own the connection's last
  // reference.
  auto wake = [weak = weak_from_this(), strand = strand_] {
    if (auto self = weak.lock()) {
      asio::post(strand, [self = std::move(self)] { self->flush(); });
    }
  };
  exchange_ = std::make_shared<Exchange>(std::move(framing_), core_->format_error, std::move(wake));
  return std::make_shared<ResponseWriter>(exchange_);
}

void Connection::flush() {
  if (phase_ != Phase::kResponding) return;
  if (exchange_->gone())
    return drop(Parting::kReset);  // too slow a reader, or a writer that gave up
  arm_ping();
  if (writing_) return;
  std::optional<Exchange::Piece> piece = exchange_->take(!core_->draining && !at_end());
  if (!piece) return;
  out_ = *std::move(piece);
  out_sent_ = 0;
  start_write();
}

void Connection::start_write() {
  Stream::Pieces rest = {asio::buffer(out_.head), asio::buffer(out_.body), asio::buffer(out_.tail)};
  size_t skip = out_sent_;
  for (asio::const_buffer& piece : rest) {
    const size_t skipped = std::min(skip, piece.size());
    piece += skipped;
    skip -= skipped;
  }
  writing_ = true;
  set_deadline(core_->options.write_timeout);
  stream_.async_write_some(
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
  // Draining: a stream whose head left before says "keep-alive", and is the last all the same.
  const bool close = out_.close || at_end() || core_->draining;
  out_ = {};
  exchange_->all_sent();
  exchange_.reset();
  --core_->open_requests;
  end_request();
  ping_timer_.cancel();
  watch_timer_.cancel();
  if (close) return linger();
  phase_ = Phase::kIdle;
  set_deadline(core_->options.idle_timeout);
  if (!reading_) return advance();
  // The watching read is still out. With pipelined bytes here, call it back: its end goes on with
  // them.
  if (in_.size() > 0) stream_.cancel();
}

// Gives back what a request held, whichever way it ended.
void Connection::end_request() {
  body_share_.release();
  router_.reset();
}

}  // namespace pacer::http
