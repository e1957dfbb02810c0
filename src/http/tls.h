// The server's side of TLS: its certificate and key, and what it agrees to speak.
//
// TLS 1.2 or later, ALPN http/1.1. No client certificates, and no reloading: a new certificate
// takes a restart. Called once, by Server::start(); the handshakes are http/stream's.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "http/asio.h"

namespace pacer::http {

// From PEM files; the certificate's may go on with its chain. A file that cannot be used, or a key
// of another certificate, is an Error that names it. A certificate out of its time is only warned
// of: it is the clock of this machine that says so, and the clients decide.
Result<std::shared_ptr<TlsContext>> make_tls_context(const std::string& certificate_file,
                                                     const std::string& key_file);

}  // namespace pacer::http
