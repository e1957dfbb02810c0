// Peers that leave, read too slowly or come in crowds, and a server that stops under them.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "http/test_server.h"

namespace pacer::http {
namespace {

TEST(Disconnect, IsNoticedWhileTheHandlerStillWorks) {
  TestServer server;
  for (const char* path : {"/park", "/stream"}) {
    SCOPED_TRACE(path);
    const int before = server.gone;
    const size_t index = server.parked.size();
    TestClient client(server.port());
    client.request("GET", path);
    const auto writer = server.parked.wait(index);
    ASSERT_NE(writer, nullptr);
    EXPECT_FALSE(writer->gone());
    client.close();
    EXPECT_TRUE(eventually([&] { return server.gone == before + 1; }));
    EXPECT_TRUE(writer->gone());
    int late = 0;
    writer->on_gone([&] { ++late; });
    EXPECT_EQ(late, 1);
    writer->send(Response{});  // nothing happens
  }
  EXPECT_TRUE(eventually([&] { return server.server->connection_count() == 0; }));
  EXPECT_EQ(server.server->open_request_count(), 0u);
}

TEST(Disconnect, AResetIsNoticedToo) {
  TestServer server;
  TestClient client(server.port());
  client.request("GET", "/park");
  ASSERT_NE(server.parked.wait(), nullptr);
  client.reset();
  EXPECT_TRUE(eventually([&] { return server.gone == 1; }));
}

TEST(Disconnect, IsNoticedBehindPipelinedBytesThatAreKept) {
  TestServer server;
  TestClient client(server.port());
  client.request("GET", "/park");
  client.request("GET", "/hello");
  ASSERT_NE(server.parked.wait(), nullptr);
  client.close();
  EXPECT_TRUE(eventually([&] { return server.gone == 1; }));
}

TEST(Disconnect, IsNoticedBehindMorePipelinedBytesThanAreKept) {
  TestServer server;
  TestClient client(server.port());
  client.request("GET", "/park");
  const std::string body(30'000, 'x');  // over max_header_bytes, within the kernel's buffers
  client.request("POST", "/echo", body);
  const auto writer = server.parked.wait();
  ASSERT_NE(writer, nullptr);
  writer->on_gone([&] { server.gone += 10; });  // replaces the first
  client.close();
  EXPECT_TRUE(eventually([&] { return server.gone == 10; }));
}

TEST(Disconnect, MorePipelinedBytesThanAreKeptAreReadAfterTheResponse) {
  TestServer server;
  TestClient client(server.port());
  client.request("GET", "/park");
  const std::string body(300'000, 'x');
  std::thread sender([&] { client.request("POST", "/echo", body); });
  const auto writer = server.parked.wait();
  ASSERT_NE(writer, nullptr);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  writer->send(Response{200, {}, "first"});
  EXPECT_EQ(client.response().body, "first");
  EXPECT_EQ(client.response().body, body);
  sender.join();
}

TEST(Disconnect, ACompleteResponseDoesNotCountAsGone) {
  TestServer server;
  {
    TestClient client(server.port());
    client.request("GET", "/park");
    const auto writer = server.parked.wait();
    ASSERT_NE(writer, nullptr);
    writer->send(Response{200, {}, "done"});
    EXPECT_EQ(client.response().body, "done");
  }
  EXPECT_TRUE(eventually([&] { return server.server->connection_count() == 0; }));
  EXPECT_EQ(server.gone, 0);
}

TEST(Disconnect, AWriterDroppedInMidStreamCutsItWithoutALastChunk) {
  TestServer server;
  TestClient client(server.port());
  client.request("GET", "/stream");
  ASSERT_NE(server.parked.wait(), nullptr);
  EXPECT_EQ(client.response_head().status, 200);
  server.parked.clear();
  EXPECT_EQ(client.chunk(), std::nullopt);
  EXPECT_EQ(server.gone, 0);  // it was not the peer who left
}

TEST(SlowReader, IsDroppedAtTheLimitWhileAnotherStreamGoesOn) {
  ServerOptions options = TestServer::defaults();
  options.max_write_buffer_bytes = 256u << 10;
  TestServer server(options);
  TestClient slow(server.port(), /*receive_buffer=*/4096);
  slow.request("GET", "/stream");
  const auto to_slow = server.parked.wait(0);
  TestClient quick(server.port());
  quick.request("GET", "/stream");
  const auto to_quick = server.parked.wait(1);
  ASSERT_TRUE(to_slow && to_quick);
  quick.response_head();

  const std::string event(4096, 'e');
  size_t written = 0;
  while (!to_slow->gone() && written < (256u << 20)) {
    to_slow->write(event);
    written += event.size();
    EXPECT_LE(to_slow->buffered_bytes(), options.max_write_buffer_bytes + 64);  // 64: chunk framing
    to_quick->write("tick");
    ASSERT_TRUE(quick.read_until("tick"));
  }
  EXPECT_TRUE(to_slow->gone()) << written << " bytes written";
  EXPECT_TRUE(eventually([&] { return server.gone == 1; }));
  EXPECT_FALSE(to_quick->gone());
  to_quick->end();
  EXPECT_EQ(quick.chunk(), "");
}

TEST(SlowReader, ThatTakesNothingIsDroppedAfterTheWriteTimeout) {
  ServerOptions options = TestServer::defaults();
  options.write_timeout = std::chrono::milliseconds(100);
  TestServer server(options);
  TestClient client(server.port(), /*receive_buffer=*/4096);
  client.request("GET", "/big");  // larger than what the kernel takes for it
  client.request("GET", "/big");
  client.request("GET", "/big");
  EXPECT_TRUE(eventually([&] { return server.server->connection_count() == 1; }));
  EXPECT_TRUE(eventually([&] { return server.server->connection_count() == 0; }));
}

TEST(Crowd, TwoHundredStreamsGetTheirOwnEventsInOrder) {
  constexpr size_t kStreams = 200;
  constexpr int kEvents = 20;
  TestServer server;
  std::vector<std::unique_ptr<TestClient>> clients;
  for (size_t i = 0; i < kStreams; ++i) {
    clients.push_back(std::make_unique<TestClient>(server.port()));
    clients.back()->request("GET", "/stream");
    ASSERT_NE(server.parked.wait(i), nullptr);  // one after the other: stream i belongs to client i
  }
  // As the engine does: one thread writes one event to every stream in each step.
  std::thread engine([&] {
    for (int event = 0; event < kEvents; ++event) {
      for (size_t i = 0; i < kStreams; ++i) {
        server.parked.wait(i)->write(std::to_string(i) + ":" + std::to_string(event) + "\n");
      }
    }
    for (size_t i = 0; i < kStreams; ++i) server.parked.wait(i)->end();
  });
  for (size_t i = 0; i < kStreams; ++i) {
    std::string expected;
    for (int event = 0; event < kEvents; ++event) {
      expected += std::to_string(i) + ":" + std::to_string(event) + "\n";
    }
    const TestResponse response = clients[i]->response();
    EXPECT_TRUE(response.complete);
    EXPECT_EQ(response.body, expected);
  }
  engine.join();
}

TEST(Crowd, PeersLeaveWhileSeveralThreadsWriteToThem) {
  constexpr size_t kStreams = 60;
  TestServer server;
  std::vector<std::unique_ptr<TestClient>> clients;
  for (size_t i = 0; i < kStreams; ++i) {
    clients.push_back(std::make_unique<TestClient>(server.port()));
    clients.back()->request("GET", "/stream");
    ASSERT_NE(server.parked.wait(i), nullptr);
  }
  std::atomic<bool> stop = false;
  std::vector<std::thread> writers;
  for (size_t t = 0; t < 3; ++t) {
    writers.emplace_back([&] {
      while (!stop) {
        for (size_t i = 0; i < kStreams; ++i) server.parked.wait(i)->write("data: x\n\n");
      }
    });
  }
  for (size_t i = 0; i < kStreams; ++i) {
    if (i % 2 == 0) {
      clients[i]->close();
    } else {
      clients[i]->reset();
    }
  }
  EXPECT_TRUE(eventually([&] { return server.gone == static_cast<int>(kStreams); }));
  stop = true;
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(server.gone, static_cast<int>(kStreams));  // once each
}

TEST(Stop, EndsWithStreamsAndRequestsOpen) {
  TestServer server;
  std::vector<std::unique_ptr<TestClient>> clients;
  for (size_t i = 0; i < 20; ++i) {
    clients.push_back(std::make_unique<TestClient>(server.port()));
    clients.back()->request("GET", i % 2 == 0 ? "/stream" : "/park");
    ASSERT_NE(server.parked.wait(i), nullptr);
  }
  std::atomic<bool> stop = false;
  std::thread engine([&] {  // goes on writing through the stop and after it
    while (!stop) {
      for (size_t i = 0; i < 20; i += 2) server.parked.wait(i)->write("x");
    }
  });
  server.server->stop();
  EXPECT_EQ(server.gone, 20);
  EXPECT_EQ(server.server->connection_count(), 0u);
  stop = true;
  engine.join();
  for (const auto& client : clients) EXPECT_TRUE(client->closed());
}

TEST(Stop, AWriterMayOutliveItsServer) {
  std::shared_ptr<ResponseWriter> writer;
  {
    TestServer server;
    TestClient client(server.port());
    client.request("GET", "/stream");
    writer = server.parked.wait();
    ASSERT_NE(writer, nullptr);
  }
  EXPECT_TRUE(writer->gone());
  writer->write("x");
  writer->end();
}

TEST(Stop, AWriterWhoseResponseWasSentMayOutliveItsServerToo) {
  std::shared_ptr<ResponseWriter> writer;
  {
    TestServer server;
    TestClient client(server.port());
    client.request("GET", "/park");
    writer = server.parked.wait();
    ASSERT_NE(writer, nullptr);
    writer->send(Response{200, {}, "done"});
    EXPECT_EQ(client.response().body, "done");
  }
  EXPECT_FALSE(writer->gone());
  writer.reset();  // sanitizers saw it reach into the server
}

TEST(Drain, OpenRequestsEndWellAndNewOnesAreNotTaken) {
  TestServer server;
  TestClient idle(server.port());
  idle.request("GET", "/hello");
  EXPECT_EQ(idle.response().status, 200);
  TestClient busy(server.port());
  busy.request("GET", "/park");
  const auto writer = server.parked.wait();
  ASSERT_NE(writer, nullptr);
  ASSERT_TRUE(eventually([&] { return server.server->open_request_count() == 1; }));

  server.server->stop_accepting();
  EXPECT_TRUE(idle.closed());
  EXPECT_TRUE(eventually([&] { return !TestClient(server.port()).connected(); }));
  EXPECT_FALSE(writer->gone());
  writer->send(Response{200, {}, "whole"});
  const TestResponse response = busy.response();
  EXPECT_EQ(response.body, "whole");
  EXPECT_EQ(response.header("Connection"), "close");
  EXPECT_TRUE(busy.closed());
  EXPECT_EQ(server.server->open_request_count(), 0u);
}

TEST(Drain, AStreamWhoseHeadLeftBeforeIsTheLastOfItsConnection) {
  TestServer server;
  TestClient client(server.port());
  client.request("GET", "/stream");
  const auto writer = server.parked.wait();
  ASSERT_NE(writer, nullptr);
  EXPECT_EQ(client.response_head().header("Connection"), "");
  server.server->stop_accepting();
  writer->write("last");
  EXPECT_EQ(client.chunk(), "last");
  writer->end();
  EXPECT_EQ(client.chunk(), "");
  EXPECT_TRUE(client.closed());
}

TEST(Accept, WithoutFileDescriptorsItWaitsAndThenGoesOn) {
  TestServer server;
  TestClient before(server.port());
  before.request("GET", "/hello");
  ASSERT_EQ(before.response().status, 200);
  TestClient during(server.port());  // its own descriptor exists before they run out
  during.request("GET", "/hello");
  ASSERT_EQ(during.response().status, 200);

  rlimit old{};
  getrlimit(RLIMIT_NOFILE, &old);
  std::vector<int> hoard;
  rlimit low = old;
  low.rlim_cur = 256;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  for (int fd; (fd = dup(STDERR_FILENO)) >= 0;) hoard.push_back(fd);
  ASSERT_FALSE(hoard.empty());
  ::close(hoard.back());  // one for the client; none is left for the server's end of it
  hoard.pop_back();
  TestClient waiting(server.port());
  ASSERT_TRUE(waiting.connected());
  waiting.request("GET", "/hello");
  EXPECT_TRUE(waiting.quiet_for(std::chrono::milliseconds(150)));
  during.request("GET", "/hello");
  EXPECT_EQ(during.response().status, 200);  // others are served meanwhile
  for (const int fd : hoard) ::close(fd);
  EXPECT_EQ(waiting.response().status, 200);
  setrlimit(RLIMIT_NOFILE, &old);
}

}  // namespace
}  // namespace pacer::http
