// The caller's end of one response: send it whole, or stream it. Any thread may call; no call
// blocks or does I/O.
//
// What is written is queued and sent by an I/O thread; writes that queue up meanwhile leave in one
// socket write. The queue of a stream is bounded: a peer that reads too slowly is treated as gone.
// A writer that is dropped before the response is complete answers 500, or cuts the stream so that
// the peer sees it is not whole; no peer waits for ever.
//
// Calls after the response is complete or the peer is gone do nothing: a ping and an end may race.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "http/message.h"

namespace pacer::http {

class Exchange;

class ResponseWriter {
 public:
  explicit ResponseWriter(std::shared_ptr<Exchange> exchange);  // made by http/connection
  ~ResponseWriter();
  ResponseWriter(const ResponseWriter&) = delete;
  ResponseWriter& operator=(const ResponseWriter&) = delete;

  // One whole response. Header fields that could split the response are refused: the peer gets a
  // 500.
  void send(Response response);

  // A body of unknown length: chunked (to an HTTP/1.0 peer: until close). write() and end() need
  // begin_stream() first.
  void begin_stream(int status, Headers headers);
  void write(std::string data);
  void end();

  // Writes `data` whenever nothing was written for `every`, by wall clock on an I/O thread, until
  // the stream ends. For SSE comments: give whole events to write(), and `data` will fall between
  // them.
  void ping_every(Duration every, std::string data);

  // Bytes queued here and not yet taken by the kernel.
  size_t buffered_bytes() const;

  // f runs once if the peer leaves or is dropped before the response is complete: on an I/O thread,
  // or at once in the calling thread if that already happened. Forgotten when the response is
  // complete. A second f replaces the first.
  void on_gone(std::function<void()> f);
  bool gone() const;

 private:
  std::shared_ptr<Exchange> exchange_;
};

}  // namespace pacer::http
