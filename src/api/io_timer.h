// Runs something later on an I/O thread: http::Server::after() for code that is made before the
// server is.
#pragma once

#include <atomic>
#include <functional>
#include <utility>

#include "http/server.h"

namespace pacer::api {

class IoTimer {
 public:
  // Once the server listens. It outlives whoever calls after(), or is detached (nullptr) before.
  void attach(http::Server* server) { server_.store(server); }

  // Does nothing while no server is attached.
  void after(Duration delay, std::function<void()> f) const {
    if (http::Server* server = server_.load()) server->after(delay, std::move(f));
  }

 private:
  std::atomic<http::Server*> server_{nullptr};
};

}  // namespace pacer::api
