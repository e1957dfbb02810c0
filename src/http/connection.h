// One connection: reads requests one at a time, hands each to the router, sends its response, and
// watches all the while whether the peer is still there. TCP, TLS or unix: see http/stream.
//
// Everything runs on the connection's strand; handlers and writers on other threads reach it only
// through Exchange's wake. At most one read and one write are outstanding. The read goes on while a
// response is pending: that is how a peer that leaves is noticed. Pipelined bytes it finds are kept
// for the next request, up to the header limit.
//
//   (kHandshake -->) kIdle --first byte--> kHeader --> kBody --> kResponding --last byte sent-->
//   kIdle, or kLinger --> kClosed
//     any of the first four may go to kResponding with an error (400, 408, 413, 431, ...), which
//     closes afterwards; so may a refusal (401, 503) that leaves a body unread
//
// A request keeps the router that it met when its header was complete: the gate that let it pass
// and the handler that answers it are of one table, whatever set_router() does meanwhile.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "http/asio.h"
#include "http/body_budget.h"
#include "http/cors.h"
#include "http/exchange.h"
#include "http/server.h"
#include "http/stream.h"

namespace pacer::http {

class Connection;

// What the server and its connections share. Connections keep it alive, so a late writer never
// meets a dead io_context.
struct ServerCore {
  ServerOptions options;
  std::shared_ptr<const ErrorFormatter> format_error;
  asio::io_context io;
  std::atomic<bool> draining = false;
  std::atomic<size_t> open_requests = 0;
  BodyBudget body_budget;
  Cors cors;

  std::mutex mutex;  // of what follows
  std::shared_ptr<const Router> router;
  bool stopped = false;
  std::unordered_map<Connection*, std::weak_ptr<Connection>> connections;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // The socket's executor is the strand, so every completion below runs on it.
  // tls: null where none is spoken.
  Connection(std::shared_ptr<ServerCore> core, Socket socket, Strand strand,
             std::shared_ptr<TlsContext> tls);
  ~Connection();

  // From any thread.
  void start();
  void refuse();  // over the connection limit: 503, then close
  void drain();   // close if idle
  void stop();    // drop now

 private:
  enum class Phase { kHandshake, kIdle, kHeader, kBody, kResponding, kLinger, kClosed };
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  // Reading (connection.cpp).
  void say_refused();
  void start_handshake();
  void on_handshake(ErrorCode ec);
  void start_read();
  void on_read(ErrorCode ec, size_t bytes);
  void on_read_error(ErrorCode ec);
  void advance();  // does what the phase can do with the bytes that are there, then reads more
  void begin_request();
  void parse_header();
  void parse_body();
  void on_parse_error(ErrorCode ec);
  void watch_peer();
  void watch_peer_by_polling();

  // From a whole header to the handler (connection_request.cpp).
  void on_header();
  void identify();
  bool fill_head(std::string* why_not);
  bool refuse_by_gate();
  bool take_body_bytes();
  void fail_body_budget();
  void begin_body();
  void send_continue();
  void dispatch();
  void answer(Response response);
  void fail(int status, std::string message);

  // Responding (connection_response.cpp).
  std::shared_ptr<ResponseWriter> begin_exchange();
  void flush();
  void start_write();
  void on_write(ErrorCode ec, size_t bytes);
  // The peer has said all, and none of it is left: no request follows.
  bool at_end() const { return peer_eof_ && in_.size() == 0; }
  void arm_ping();
  void finish_response();
  void end_request();

  // Time and the end (connection.cpp).
  void set_deadline(Duration d);
  void end_reading();
  void clear_deadline() { deadline_ = TimePoint::max(); }
  void arm_deadline_timer();
  void on_deadline();
  void linger();
  using Parting = Stream::Parting;
  void drop(Parting parting);

  const std::shared_ptr<ServerCore> core_;  // first: outlives the socket
  const Strand strand_;
  Stream stream_;
  Phase phase_ = Phase::kIdle;
  bool refused_ = false;
  bool reading_ = false;
  bool writing_ = false;
  bool peer_eof_ = false;

  boost::beast::flat_buffer in_;
  std::optional<Parser> parser_;
  size_t header_bytes_ = 0;

  // Of the request being read or answered.
  Request request_;
  std::shared_ptr<const Router> router_;
  Exchange::Framing framing_;
  BodyShare body_share_;

  std::shared_ptr<Exchange> exchange_;  // set in kResponding
  Exchange::Piece out_;
  size_t out_sent_ = 0;

  // One timer, moved lazily: a deadline per write costs one store.
  asio::steady_timer deadline_timer_;
  TimePoint deadline_ = TimePoint::max();
  bool deadline_armed_ = false;
  asio::steady_timer ping_timer_;
  bool ping_armed_ = false;
  asio::steady_timer watch_timer_;
};

}  // namespace pacer::http
