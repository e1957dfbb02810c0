// One request's response on its way out: the queue between the threads that write it and the strand
// that sends it.
//
// A small state machine under a mutex: kIdle -> kStreaming -> kComplete, or kGone from the first
// two. Callers (ResponseWriter, any thread) append and complete; http/connection (its strand) takes
// what is queued as one write and reports what the kernel took. Knows HTTP's framing, and no
// sockets: `wake` is how it tells the connection to look.
//
// `wake` is called under the mutex, so that a connection which has called peer_gone() or all_sent()
// is never woken again: a writer may be kept for longer than the server lives.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.h"
#include "http/message.h"

namespace pacer::http {

class Exchange {
 public:
  struct Framing {
    bool is_head = false;  // of the method HEAD: no body in the response
    bool http_1_1 = true;  // else no chunks: a stream ends with the connection
    bool keep_alive = true;
    size_t max_buffered_bytes = 1u << 20;
    Headers fields{};  // of every response: the request's id, CORS. They win over the caller's.
  };

  // One write to the socket: three pieces, so that a large body is moved and not copied.
  struct Piece {
    std::string head, body, tail;
    bool last = false;   // the response ends with it
    bool close = false;  // and so does the connection (valid when last)
  };

  Exchange(Framing framing, std::shared_ptr<const ErrorFormatter> format_error,
           std::function<void()> wake);

  // Callers' side; see ResponseWriter.
  void send(Response response);
  void begin_stream(int status, Headers headers);
  void write(std::string data);
  void end();
  void ping_every(Duration every, std::string data);
  void on_gone(std::function<void()> f);
  size_t buffered_bytes() const;
  void abandon();  // the last writer is gone

  // Connection's side, on its strand.
  std::optional<Piece> take(bool may_keep_alive);  // nothing queued: nullopt
  void sent(size_t bytes);
  void all_sent();   // the connection goes on to the next: never woken again
  void peer_gone();  // runs on_gone, unless the response is complete or it already ran

  // Queues the ping if it is due; how long until it may be due next, or nullopt when there is none
  // to come.
  std::optional<Duration> ping(TimePoint now);

  bool gone() const;
  bool complete() const;  // nothing more will be queued

 private:
  enum class State { kIdle, kStreaming, kComplete, kGone };

  Response checked(Response response) const;
  std::string take_head(bool may_keep_alive);
  void wake();

  Framing framing_;
  const std::shared_ptr<const ErrorFormatter> format_error_;

  mutable std::mutex mutex_;
  std::function<void()> wake_;
  bool woken_ = false;  // and nothing taken since: one wake is enough
  State state_ = State::kIdle;
  std::function<void()> on_gone_;

  int status_ = 0;
  Headers headers_;
  bool whole_ = false;  // Content-Length, not chunks
  bool head_taken_ = false;
  bool close_ = false;
  std::string body_;       // queued
  size_t in_flight_ = 0;   // taken, and not yet sent
  Duration ping_every_{};  // 0: none
  std::string ping_data_;
  TimePoint last_write_{};
};

}  // namespace pacer::http
