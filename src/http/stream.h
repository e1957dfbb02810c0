// The byte stream under a connection: a TCP or unix socket, with TLS over it or without.
//
// http/connection reads and writes it as if there were no TLS. What differs is decided here: the
// handshake, records, how a peer says that it has finished, and how we do. One read and one write
// may be outstanding, on the socket's strand, and their owner keeps this object until they end.
//
// close_sending() says goodbye (close_notify, FIN), close() does not: a response that was cut must
// not look like one that ended.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "http/asio.h"

namespace pacer::http {

class Stream {
 public:
  using Pieces = std::array<asio::const_buffer, 3>;

  // tls: null for a plain stream.
  Stream(Socket socket, std::shared_ptr<TlsContext> tls);

  // on_done(ErrorCode). Only where needs_handshake().
  bool needs_handshake() const { return tls_.has_value(); }
  template <class Handler>
  void async_handshake(Handler on_done) {
    tls_->async_handshake(asio::ssl::stream_base::server, std::move(on_done));
  }

  // Whether a handshake failed because the peer speaks plain HTTP; then speak it too.
  static bool is_plain_http(ErrorCode handshake_error);
  void become_plain() { use_tls_ = false; }

  // on_done(ErrorCode, size_t). The end of what the peer sends is asio::error::eof, however it
  // ends: HTTP's framing tells a whole request from a cut one.
  template <class Handler>
  void async_read_some(asio::mutable_buffer to, Handler on_done) {
    if (!use_tls_) return socket_.async_read_some(to, std::move(on_done));
    tls_->async_read_some(to, [done = std::move(on_done)](ErrorCode ec, size_t bytes) mutable {
      if (ec == asio::ssl::error::stream_truncated) ec = asio::error::eof;
      done(ec, bytes);
    });
  }

  // on_done(ErrorCode, size_t): so many of the pieces' bytes were taken by the kernel.
  template <class Handler>
  void async_write_some(const Pieces& pieces, Handler on_done) {
    if (!use_tls_) return socket_.async_write_some(pieces, std::move(on_done));
    // Asio would make a record of each piece, and a chunk's size and its end are pieces.
    record_.resize(std::min(asio::buffer_size(pieces), kRecordBytes));
    asio::buffer_copy(asio::buffer(record_), pieces);
    tls_->async_write_some(asio::buffer(record_), std::move(on_done));
  }

  // Ends our side; calls back an outstanding read. What the peer still sends can then be read to be
  // thrown away: behind TLS it is not decrypted any more. `keep_alive` lives until it is sent.
  void close_sending(std::shared_ptr<void> keep_alive);

  void cancel();  // calls back what is outstanding, with operation_aborted
  enum class Parting { kClose, kReset };
  void close(
      Parting parting);  // kReset: frees what the kernel holds for a reader that does not read

  void send_without_delay();  // a small write does not wait for the next
  bool peer_closed() const;   // as the kernel knows it, without reading
  std::string remote_address() const;

 private:
  static constexpr size_t kRecordBytes = 16u << 10;  // the most that TLS puts into one

  Socket socket_;
  const std::shared_ptr<TlsContext> context_;
  std::optional<asio::ssl::stream<Socket&>> tls_;
  bool use_tls_;
  std::string record_;
};

}  // namespace pacer::http
