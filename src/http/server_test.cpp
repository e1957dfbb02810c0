// The server over real sockets: what a well-behaved client sees. Limits and rude clients:
// limits_test, disconnect_test.
#include "http/server.h"

#include <gtest/gtest.h>

#include "http/test_server.h"

namespace pacer::http {
namespace {

TEST(Server, AnswersARequest) {
  TestServer server;
  TestClient client(server.port());
  client.request("GET", "/hello");
  const TestResponse response = client.response();
  EXPECT_EQ(response.status, 200);
  EXPECT_TRUE(response.complete);
  EXPECT_EQ(response.body, "hello");
  EXPECT_EQ(response.header("content-type"), "text/plain");
  EXPECT_TRUE(response.header("Date").ends_with(" GMT"));
  EXPECT_EQ(response.header("Connection"), "");
}

TEST(Server, AHandlerSeesTheDecodedPathTheQueryAndThePeer) {
  TestServer server;
  TestClient client(server.port());
  client.request("GET", "/what/a%20b%2Fc?x=%201");
  EXPECT_EQ(client.response().body, "GET /what/a b/c|a b/c|x=%201|127.0.0.1");
  client.request("GET", "http://any.host:80/what?q");  // absolute form, as proxies send it
  EXPECT_EQ(client.response().body, "GET /what||q|127.0.0.1");
}

TEST(Server, AConnectionServesManyRequests) {
  TestServer server;
  TestClient client(server.port());
  for (int i = 0; i < 50; ++i) {
    client.request("POST", "/echo", "body " + std::to_string(i));
    ASSERT_EQ(client.response().body, "body " + std::to_string(i));
  }
  EXPECT_EQ(server.server->connection_count(), 1u);
  EXPECT_TRUE(eventually([&] { return server.server->open_request_count() == 0; }));
}

TEST(Server, PipelinedRequestsAreAnsweredInOrder) {
  TestServer server;
  TestClient client(server.port());
  std::string all;
  for (int i = 0; i < 100; ++i) {
    const std::string body(static_cast<size_t>(i * 37), static_cast<char>('a' + i % 26));
    all += "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\n\r\n" + body;
  }
  std::thread sender([&] { client.send(all); });
  for (int i = 0; i < 100; ++i) {
    const TestResponse response = client.response();
    EXPECT_EQ(response.body,
              std::string(static_cast<size_t>(i * 37), static_cast<char>('a' + i % 26)));
  }
  sender.join();
}

TEST(Server, APipelinedRequestWaitsForTheResponseBeforeIt) {
  TestServer server;
  TestClient client(server.port());
  client.request("GET", "/park");
  client.request("GET", "/hello");
  const auto writer = server.parked.wait();
  ASSERT_NE(writer, nullptr);
  EXPECT_TRUE(client.quiet_for(std::chrono::milliseconds(50)));
  writer->send(Response{200, {}, "first"});
  EXPECT_EQ(client.response().body, "first");
  EXPECT_EQ(client.response().body, "hello");
}

TEST(Server, AChunkedRequestBodyIsJoined) {
  TestServer server;
  TestClient client(server.port());
  client.send(
      "POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
      "5\r\nhello\r\n1;ext=1\r\n \r\n5\r\nworld\r\n0\r\nTrailer: x\r\n\r\n");
  EXPECT_EQ(client.response().body, "hello world");
  client.request("GET", "/hello");  // the trailer was eaten: the next request is understood
  EXPECT_EQ(client.response().body, "hello");
}

TEST(Server, ARequestMayComeByteByByte) {
  TestServer server;
  for (const std::string& request :
       {std::string("\r\nPOST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 6\r\n\r\nab\r\n\r\n"),
        std::string("POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "2\r\nab\r\n4\r\n\r\n\r\n\r\n0\r\n\r\n")}) {
    TestClient client(server.port());
    for (const char c : request) {
      client.send(std::string_view(&c, 1));
      std::this_thread::sleep_for(std::chrono::microseconds(200));  // so that packets stay apart
    }
    EXPECT_EQ(client.response().body, "ab\r\n\r\n");
  }
}

TEST(Server, ABodyIsBytesNulIncluded) {
  TestServer server;
  TestClient client(server.port());
  std::string body;
  for (int i = 0; i < 256; ++i) body += static_cast<char>(i);
  client.request("POST", "/echo", body);
  EXPECT_EQ(client.response().body, body);
}

TEST(Server, HeadIsAnsweredLikeGetWithoutTheBody) {
  TestServer server;
  TestClient client(server.port());
  client.request("HEAD", "/hello");
  const TestResponse response = client.response(/*head=*/true);
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.header("Content-Length"), "5");
  client.request("GET", "/hello");  // not a byte of the body was in between
  EXPECT_EQ(client.response().body, "hello");
}

TEST(Server, ExpectContinueIsToldToGoOn) {
  TestServer server;
  TestClient client(server.port());
  client.send(
      "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.response_head().status, 100);
  client.send("body");
  const TestResponse response = client.response();
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, "body");
}

TEST(Server, ConnectionCloseIsHonoured) {
  TestServer server;
  TestClient client(server.port());
  client.request("GET", "/hello", "", "Connection: close\r\n");
  const TestResponse response = client.response();
  EXPECT_EQ(response.body, "hello");
  EXPECT_EQ(response.header("Connection"), "close");
  EXPECT_TRUE(client.closed());
}

TEST(Server, AnHttp10PeerGetsAnAnswerUntilCloseOrKeepAliveIfItAsks) {
  TestServer server;
  TestClient plain(server.port());
  plain.send("GET /hello HTTP/1.0\r\n\r\n");
  EXPECT_EQ(plain.response().body, "hello");
  EXPECT_TRUE(plain.closed());

  TestClient kept(server.port());
  for (int i = 0; i < 2; ++i) {
    kept.send("GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    const TestResponse response = kept.response();
    EXPECT_EQ(response.body, "hello");
    EXPECT_EQ(response.header("Connection"), "keep-alive");
  }

  TestClient streaming(server.port());
  streaming.send("GET /stream HTTP/1.0\r\n\r\n");
  const auto writer = server.parked.wait();
  ASSERT_NE(writer, nullptr);
  writer->write("some");
  writer->end();
  const TestResponse response = streaming.response();
  EXPECT_EQ(response.header("Transfer-Encoding"), "");
  EXPECT_EQ(response.body, "some");
}

TEST(Server, APeerThatClosesItsSendingSideStillGetsAReadyResponse) {
  TestServer server;
  TestClient client(server.port());
  client.request("GET", "/big");
  client.close_sending_side();
  EXPECT_EQ(client.response().body.size(), 4u << 20);
  EXPECT_TRUE(client.closed());
}

TEST(Server, AHandlerThatThrowsOrForgetsAnswers500) {
  TestServer server;
  TestClient client(server.port());
  client.request("GET", "/throw");
  const TestResponse thrown = client.response();
  EXPECT_EQ(thrown.status, 500);
  EXPECT_EQ(thrown.body.find("a library's exception"), std::string::npos);  // for the log only
  client.request("GET", "/drop");
  EXPECT_EQ(client.response().status, 500);
  client.request("GET", "/hello");
  EXPECT_EQ(client.response().body, "hello");
}

TEST(Server, ErrorsOfItsOwnHaveTheShapeOfTheFormatter) {
  auto started = Server::start(
      TestServer::defaults(), Router{}, [](int status, std::string message) -> Response {
        if (status == 400) throw std::runtime_error("a broken formatter");
        return Response{status, {{"Content-Type", "application/json"}}, "{" + message + "}"};
      });
  ASSERT_TRUE(started);
  TestClient client((*started)->port());
  client.request("GET", "/nowhere");
  const TestResponse missing = client.response();
  EXPECT_EQ(missing.status, 404);
  EXPECT_EQ(missing.body, "{there is no /nowhere here}");
  client.send("nonsense\r\n\r\n");
  EXPECT_EQ(client.response().status, 400);  // even so
}

TEST(Server, AStreamArrivesWhileItIsWritten) {
  TestServer server;
  TestClient client(server.port());
  client.request("GET", "/stream");
  const auto writer = server.parked.wait();
  ASSERT_NE(writer, nullptr);
  const TestResponse head = client.response_head();
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.header("Transfer-Encoding"), "chunked");
  for (int i = 0; i < 20; ++i) {
    const std::string event = "data: " + std::to_string(i) + "\n\n";
    writer->write(event);
    EXPECT_EQ(client.chunk(), event);
  }
  writer->end();
  EXPECT_EQ(client.chunk(), "");
  EXPECT_TRUE(eventually([&] { return writer->buffered_bytes() == 0; }));
  client.request("GET", "/hello");
  EXPECT_EQ(client.response().body, "hello");
}

TEST(Server, AQuietStreamIsPingedAndAnEndedOneIsNot) {
  TestServer server;
  TestClient client(server.port());
  client.request("GET", "/stream");
  const auto writer = server.parked.wait();
  ASSERT_NE(writer, nullptr);
  client.response_head();
  writer->ping_every(std::chrono::milliseconds(5), ": ping\n\n");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client.chunk(), ": ping\n\n");
  writer->end();
  std::optional<std::string> chunk;
  while ((chunk = client.chunk()) && !chunk->empty()) EXPECT_EQ(*chunk, ": ping\n\n");
  EXPECT_TRUE(chunk.has_value());
  EXPECT_TRUE(client.quiet_for(std::chrono::milliseconds(30)));
}

TEST(Server, AfterRunsLaterOnAnIoThreadAndNotAtAllOnceStopped) {
  TestServer server;
  std::promise<std::thread::id> ran;
  server.server->after(std::chrono::milliseconds(1),
                       [&] { ran.set_value(std::this_thread::get_id()); });
  auto thread = ran.get_future();
  ASSERT_EQ(thread.wait_for(kTestPatience), std::future_status::ready);
  EXPECT_NE(thread.get(), std::this_thread::get_id());
  std::atomic<bool> late = false;
  server.server->after(std::chrono::hours(1), [&] { late = true; });
  server.server->stop();
  server.server->after(Duration::zero(), [&] { late = true; });
  EXPECT_FALSE(late);
}

TEST(ServerStart, APortInUseIsAnErrorThatNamesHostAndPort) {
  TestServer first;
  ServerOptions options = TestServer::defaults();
  options.port = first.port();
  const auto second = Server::start(options, Router{});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kExhausted);
  EXPECT_NE(second.error().message.find("127.0.0.1"), std::string::npos);
  EXPECT_NE(second.error().message.find(std::to_string(options.port)), std::string::npos);
}

TEST(ServerStart, AHostThatIsNotOneIsAnError) {
  for (const char* host :
       {"", "no such host.invalid", "300.1.1.1", "192.0.2.1"}) {  // last: not ours
    ServerOptions options = TestServer::defaults();
    options.host = host;
    const auto started = Server::start(options, Router{});
    ASSERT_FALSE(started) << host;
    EXPECT_NE(started.error().message.find(host), std::string::npos) << started.error().message;
  }
}

TEST(ServerStart, LocalhostAndIpv6AddressesWork) {
  for (const char* host : {"localhost", "::", "0.0.0.0"}) {
    ServerOptions options = TestServer::defaults();
    options.host = host;
    auto started = Server::start(options, Router{});
    if (!started && std::string(host) == "::") {
      GTEST_SKIP() << "this machine has no IPv6: " << started.error().message;
    }
    ASSERT_TRUE(started) << started.error().message;
    TestClient client((*started)->port());
    client.request("GET", "/");
    EXPECT_EQ(client.response().status, 404) << host;
  }
}

TEST(ServerStart, StopIsIdempotentAndAStoppedServerLeavesItsPort) {
  ServerOptions options = TestServer::defaults();
  {
    TestServer server(options);
    options.port = server.port();
    TestClient client(server.port());
    client.request("GET", "/hello");
    EXPECT_EQ(client.response().status, 200);
    server.server->stop();
    server.server->stop();
    EXPECT_TRUE(client.closed());
    EXPECT_FALSE(TestClient(options.port).connected());
  }
  TestServer again(options);
  TestClient client(again.port());
  client.request("GET", "/hello");
  EXPECT_EQ(client.response().status, 200);
}

}  // namespace
}  // namespace pacer::http
