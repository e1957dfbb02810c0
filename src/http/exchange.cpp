#include "http/exchange.h"

#include <fmt/chrono.h>

#include <ctime>

#include "base/check.h"
#include "base/log.h"

namespace pacer::http {
namespace {

using Lock = std::lock_guard<std::mutex>;

bool has_body(int status) {
  return status >= 200 && status != 204 && status != 304;
}

// These describe how the message is framed, which only this file knows.
bool is_framing_field(std::string_view name) {
  return equals_ignoring_case(name, "Content-Length") ||
         equals_ignoring_case(name, "Transfer-Encoding") ||
         equals_ignoring_case(name, "Connection") || equals_ignoring_case(name, "Date");
}

bool is_sendable(const Headers& headers) {
  for (const auto& [name, value] : headers) {
    if (!is_header_name(name) || !is_header_value(value)) return false;
  }
  return true;
}

TimePoint now() {
  return std::chrono::steady_clock::now();
}

}  // namespace

Exchange::Exchange(Framing framing, std::shared_ptr<const ErrorFormatter> format_error,
                   std::function<void()> wake)
    : framing_(std::move(framing)),
      format_error_(std::move(format_error)),
      wake_(std::move(wake)) {}

void Exchange::send(Response response) {
  response = checked(std::move(response));
  std::function<void()> forgotten;  // outlives the lock: it may own the last writer
  const Lock lock(mutex_);
  if (state_ != State::kIdle) return;
  state_ = State::kComplete;
  forgotten.swap(on_gone_);
  status_ = response.status;
  headers_ = std::move(response.headers);
  body_ = std::move(response.body);
  whole_ = true;
  wake();
}

void Exchange::begin_stream(int status, Headers headers) {
  if (!is_sendable(headers)) return send(Response{status, std::move(headers), {}});  // a 500
  std::function<void()> forgotten;
  const Lock lock(mutex_);
  if (state_ != State::kIdle) return;
  status_ = status;
  headers_ = std::move(headers);
  last_write_ = now();
  if (framing_.is_head || !has_body(status)) {
    state_ = State::kComplete;
    forgotten.swap(on_gone_);
  } else {
    state_ = State::kStreaming;
  }
  wake();
}

void Exchange::write(std::string data) {
  const Lock lock(mutex_);
  CHECK(state_ != State::kIdle, "write() of {} bytes before begin_stream()", data.size());
  if (state_ != State::kStreaming || data.empty()) return;
  last_write_ = now();
  if (body_.empty()) {
    body_ = std::move(data);
  } else {
    body_ += data;
  }
  if (body_.size() + in_flight_ > framing_.max_buffered_bytes) {
    log::warn("a reader is too slow: {} bytes wait for it, limit {}; dropped",
              body_.size() + in_flight_, framing_.max_buffered_bytes);
    state_ = State::kGone;  // the strand closes the connection and runs on_gone
    body_ = {};
    woken_ = false;  // a write that is stuck answers no wake, but this one must be seen
  }
  wake();
}

void Exchange::end() {
  std::function<void()> forgotten;
  const Lock lock(mutex_);
  CHECK(state_ != State::kIdle, "end() before begin_stream()");
  if (state_ != State::kStreaming) return;
  state_ = State::kComplete;
  forgotten.swap(on_gone_);
  wake();
}

void Exchange::ping_every(Duration every, std::string data) {
  CHECK(every > Duration::zero(), "ping every {} ns", every.count());
  const Lock lock(mutex_);
  if (state_ == State::kComplete || state_ == State::kGone) return;
  ping_every_ = every;
  ping_data_ = std::move(data);
  wake();
}

void Exchange::on_gone(std::function<void()> f) {
  std::function<void()> replaced;
  {
    const Lock lock(mutex_);
    if (state_ != State::kGone) {
      if (state_ != State::kComplete) {
        replaced.swap(on_gone_);
        on_gone_ = std::move(f);
      }
      return;
    }
  }
  if (f) f();
}

size_t Exchange::buffered_bytes() const {
  const Lock lock(mutex_);
  return body_.size() + in_flight_;
}

void Exchange::abandon() {
  std::function<void()> forgotten;
  State state;
  {
    const Lock lock(mutex_);
    state = state_;
    if (state == State::kStreaming) {
      state_ = State::kGone;
      forgotten.swap(on_gone_);
      woken_ = false;  // as in write()
      wake();
    }
  }
  if (state == State::kStreaming) log::error("a stream was dropped without end(): cut");
  if (state == State::kIdle) {
    log::error("a request was dropped without a response: answered 500");
    send((*format_error_)(500, "the server dropped this request"));
  }
}

std::optional<Exchange::Piece> Exchange::take(bool may_keep_alive) {
  const Lock lock(mutex_);
  woken_ = false;
  if (state_ == State::kIdle || state_ == State::kGone) return std::nullopt;
  Piece piece;
  if (!head_taken_) piece.head = take_head(may_keep_alive);
  piece.last = state_ == State::kComplete;
  piece.close = close_;
  if (framing_.is_head || !has_body(status_)) {
    body_ = {};
  } else if (!whole_ && framing_.http_1_1) {
    if (!body_.empty()) {
      piece.head += fmt::format("{:x}\r\n", body_.size());
      piece.tail = "\r\n";
    }
    if (piece.last) piece.tail += "0\r\n\r\n";
  }
  piece.body = std::move(body_);
  body_ = {};
  in_flight_ = piece.head.size() + piece.body.size() + piece.tail.size();
  if (in_flight_ == 0 && !piece.last) return std::nullopt;
  return piece;
}

// Status line and fields. Called once, under the lock.
std::string Exchange::take_head(bool may_keep_alive) {
  head_taken_ = true;
  const bool until_close = !whole_ && !framing_.http_1_1;
  const std::string* connection = headers_.find("Connection");
  close_ = !may_keep_alive || !framing_.keep_alive || until_close ||
           (connection != nullptr && equals_ignoring_case(*connection, "close"));

  std::string head = fmt::format("HTTP/1.1 {} {}\r\n", status_, status_text(status_));
  for (const auto& [name, value] : headers_) {
    // A list like Vary may come in several fields; others of ours come once.
    const bool replaced =
        framing_.fields.find(name) != nullptr && !equals_ignoring_case(name, "Vary");
    if (!is_framing_field(name) && !replaced) head += name + ": " + value + "\r\n";
  }
  for (const auto& [name, value] : framing_.fields) head += name + ": " + value + "\r\n";
  if (has_body(status_)) {
    if (whole_) {
      head += fmt::format("Content-Length: {}\r\n", body_.size());
    } else if (framing_.http_1_1) {
      head += "Transfer-Encoding: chunked\r\n";
    }
  }
  // HTTP/1.0 peers must be told that the connection stays, HTTP/1.1 peers that it does not.
  if (close_ || !framing_.http_1_1) {
    head += close_ ? "Connection: close\r\n" : "Connection: keep-alive\r\n";
  }
  head +=
      fmt::format("Date: {:%a, %d %b %Y %H:%M:%S} GMT\r\n\r\n", fmt::gmtime(std::time(nullptr)));
  headers_ = {};
  return head;
}

void Exchange::sent(size_t bytes) {
  const Lock lock(mutex_);
  CHECK(bytes <= in_flight_, "sent {} bytes of {}", bytes, in_flight_);
  in_flight_ -= bytes;
}

void Exchange::all_sent() {
  std::function<void()> wake;  // outlives the lock
  const Lock lock(mutex_);
  CHECK(state_ == State::kComplete, "all sent of a response that goes on");
  wake.swap(wake_);
}

void Exchange::peer_gone() {
  std::function<void()> f;
  std::function<void()> wake;
  {
    const Lock lock(mutex_);
    wake.swap(wake_);
    if (state_ == State::kComplete) return;
    state_ = State::kGone;
    body_ = {};
    f.swap(on_gone_);
  }
  if (f) f();
}

std::optional<Duration> Exchange::ping(TimePoint now) {
  const Lock lock(mutex_);
  if (ping_every_ == Duration::zero()) return std::nullopt;
  if (state_ == State::kComplete || state_ == State::kGone) return std::nullopt;
  if (state_ == State::kIdle) return ping_every_;
  if (now - last_write_ < ping_every_) return last_write_ + ping_every_ - now;
  last_write_ = now;
  // A peer that takes nothing needs no pings piled up for it.
  if (body_.empty()) {
    body_ = ping_data_;
    wake();
  }
  return ping_every_;
}

bool Exchange::gone() const {
  const Lock lock(mutex_);
  return state_ == State::kGone;
}

bool Exchange::complete() const {
  const Lock lock(mutex_);
  return state_ == State::kComplete;
}

Response Exchange::checked(Response response) const {
  if (is_sendable(response.headers)) return response;
  log::error("refused to send a header field that would split the response");
  return (*format_error_)(500, "the server made a malformed response header");
}

void Exchange::wake() {
  if (woken_ || !wake_) return;
  woken_ = true;
  wake_();
}

}  // namespace pacer::http
