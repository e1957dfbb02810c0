// A running server with a few telling routes, for the tests of http/ only.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "http/server.h"
#include "http/test_client.h"

namespace pacer::http {

// Writers that a handler parked for the test to answer.
class Parked {
 public:
  void add(std::shared_ptr<ResponseWriter> writer) {
    const std::lock_guard lock(mutex_);
    writers_.push_back(std::move(writer));
  }
  size_t size() const {
    const std::lock_guard lock(mutex_);
    return writers_.size();
  }
  // Waits until `index` + 1 writers came. Null when patience is over.
  std::shared_ptr<ResponseWriter> wait(size_t index = 0) {
    if (!eventually([&] { return size() > index; })) return nullptr;
    const std::lock_guard lock(mutex_);
    return writers_[index];
  }
  void clear() {
    std::vector<std::shared_ptr<ResponseWriter>> dropped;  // outside the lock
    const std::lock_guard lock(mutex_);
    dropped.swap(writers_);
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<ResponseWriter>> writers_;
};

// /hello, /echo (POST: the body back), /what (method path|param|query|body size), /throw, /drop,
// /park, /stream (parks an open stream), /big (4 MiB); POST /park parks too; /closed (POST): a gate
// lets nobody in.
class TestServer {
 public:
  static ServerOptions defaults() {
    ServerOptions options;
    options.port = 0;
    options.linger_timeout = std::chrono::milliseconds(500);
    return options;
  }

  explicit TestServer(ServerOptions options = defaults()) {
    auto started = Server::start(std::move(options), routes());
    EXPECT_TRUE(started) << (started ? "" : started.error().message);
    server = std::move(started).value();
  }
  ~TestServer() {
    server->stop();
    parked.clear();
  }

  uint16_t port() const { return server->port(); }

  Parked parked;
  std::atomic<int> gone = 0;     // on_gone calls of parked writers
  std::atomic<int> entered = 0;  // requests that a gate should have kept out
  std::unique_ptr<Server> server;

 private:
  Router routes() {
    Router router;
    router.add("GET", "/hello", [](const Request&, std::shared_ptr<ResponseWriter> writer) {
      writer->send(Response{200, {{"Content-Type", "text/plain"}}, "hello"});
    });
    router.add("POST", "/echo", [](const Request& request, std::shared_ptr<ResponseWriter> writer) {
      writer->send(Response{200, {}, request.body});
    });
    router.add("GET", "/what/{param}", what);
    router.add("GET", "/what", what);
    router.add("GET", "/throw", [](const Request&, std::shared_ptr<ResponseWriter>) {
      throw std::runtime_error("a library's exception");
    });
    router.add("GET", "/drop", [](const Request&, std::shared_ptr<ResponseWriter>) {});
    const Handler park = [this](const Request&, std::shared_ptr<ResponseWriter> writer) {
      writer->on_gone([this] { ++gone; });
      parked.add(std::move(writer));
    };
    router.add("GET", "/park", park);
    router.add("POST", "/park", park);
    router.add(
        "POST", "/closed", [this](const Request&, std::shared_ptr<ResponseWriter>) { ++entered; },
        [](const RequestHead&) {
          return Response{401, {{"WWW-Authenticate", "Bearer"}}, "no key"};
        });
    router.add("GET", "/stream", [this](const Request&, std::shared_ptr<ResponseWriter> writer) {
      writer->on_gone([this] { ++gone; });
      writer->begin_stream(200, {{"Content-Type", "text/event-stream"}});
      parked.add(std::move(writer));
    });
    router.add("GET", "/big", [](const Request&, std::shared_ptr<ResponseWriter> writer) {
      writer->send(Response{200, {}, std::string(4u << 20, 'b')});
    });
    return router;
  }

  static void what(const Request& request, std::shared_ptr<ResponseWriter> writer) {
    writer->send(Response{200,
                          {},
                          request.method + " " + request.path + "|" + request.path_param + "|" +
                              request.query + "|" + request.remote_address});
  }
};

}  // namespace pacer::http
