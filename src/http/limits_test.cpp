// Each limit of the server, at the value that is allowed and at the next that is not; and requests
// that are none.
#include <gtest/gtest.h>

#include "http/test_server.h"

namespace pacer::http {
namespace {

// What a refused request gets: the status, a body, Connection: close, and the close itself.
void expect_refused(TestClient& client, int status) {
  const TestResponse response = client.response();
  EXPECT_EQ(response.status, status) << response.body;
  EXPECT_TRUE(response.complete);
  EXPECT_FALSE(response.body.empty());
  EXPECT_EQ(response.header("Connection"), "close");
  EXPECT_TRUE(client.closed());
}

TEST(Limits, ABodyAtTheLimitIsTakenAndOneByteMoreIs413) {
  ServerOptions options = TestServer::defaults();
  options.max_body_bytes = 1000;
  TestServer server(options);
  TestClient client(server.port());
  client.request("POST", "/echo", std::string(1000, 'x'));
  EXPECT_EQ(client.response().body.size(), 1000u);
  client.request("POST", "/echo", std::string(1001, 'x'));
  expect_refused(client, 413);
}

TEST(Limits, AHugeContentLengthIsRefusedBeforeTheBodyIsSent) {
  TestServer server;
  for (const char* length : {"8388609", "18446744073709551615"}) {
    TestClient client(server.port());
    client.send(std::string("POST /echo HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\n") +
                "Content-Length: " + length + "\r\n\r\n");
    expect_refused(client, 413);
  }
}

TEST(Limits, ABodyThatNobodyWantsTakesNoRoom) {
  TestServer server;
  for (const std::string more : {"Content-Length: 4097\r\n", "Transfer-Encoding: chunked\r\n"}) {
    TestClient client(server.port());
    client.send("GET /hello HTTP/1.1\r\nHost: t\r\n" + more + "\r\n");
    expect_refused(client, 413);
  }
  TestClient small(server.port());
  small.request("GET", "/hello", std::string(4096, 'x'));
  EXPECT_EQ(small.response().status, 200);
}

TEST(Limits, ChunksAreCountedTogether) {
  ServerOptions options = TestServer::defaults();
  options.max_body_bytes = 10;
  TestServer server(options);
  const std::string head = "POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n";
  TestClient client(server.port());
  client.send(head + "5\r\n12345\r\n5\r\n67890\r\n0\r\n\r\n");
  EXPECT_EQ(client.response().body, "1234567890");
  client.send(head + "5\r\n12345\r\n6\r\n678901\r\n0\r\n\r\n");
  expect_refused(client, 413);
}

TEST(Limits, APeerThatSendsALargeBodyRegardlessCanStillReadThe413) {
  TestServer server;
  TestClient client(server.port());
  client.request("POST", "/echo", std::string(20u << 20, 'x'));
  EXPECT_EQ(client.response().status, 413);
}

TEST(Limits, AHeaderAtTheLimitIsTakenAndOneByteMoreIs431) {
  ServerOptions options = TestServer::defaults();
  options.max_header_bytes = 1024;
  TestServer server(options);
  const std::string before = "GET /hello HTTP/1.1\r\nHost: t\r\nX: ";
  const std::string after = "\r\n\r\n";
  const std::string fill(1024 - before.size() - after.size(), 'x');
  TestClient client(server.port());
  client.send(before + fill + after);
  EXPECT_EQ(client.response().status, 200);
  client.send(before + fill + "x" + after);
  expect_refused(client, 431);
}

TEST(Limits, AnEndlessHeaderTargetOrChunkExtensionIs431) {
  TestServer server;
  const std::string much(100'000, 'a');
  for (const std::string& start :
       {std::string("GET /"), std::string("GET / HTTP/1.1\r\nHost: t\r\nX: "), std::string(),
        std::string("POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n1;")}) {
    TestClient client(server.port());
    client.send(start + much);
    const TestResponse response = client.response();
    EXPECT_EQ(response.status, 431) << "after '" << start << "': " << response.body;
  }
}

TEST(Limits, WhatIsNotARequestIs400) {
  TestServer server;
  using std::string_literals::operator""s;
  const std::string bad[] = {
      "nonsense\r\n\r\n",
      "GET\r\n\r\n",
      "GET /hello\r\n\r\n",
      "GET /hello HTTP/2.0\r\nHost: t\r\n\r\n",
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
      "GET /hello HTTP/1.1\r\n\r\n",                        // no Host
      "GET /hello HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",  // two
      "GET /hel lo HTTP/1.1\r\nHost: t\r\n\r\n",
      "GET /hello HTTP/1.1\r\nHost: t\r\nBad Name: x\r\n\r\n",
      "GET /hello HTTP/1.1\r\nHost : t\r\n\r\n",  // a space before the colon
      "GET /hello HTTP/1.1\r\nHost: t\r\nno colon\r\n\r\n",
      "GET /hel\0lo HTTP/1.1\r\nHost: t\r\n\r\n"s,
      "GET /hello HTTP/1.1\r\nHost: t\r\nX: a\0b\r\n\r\n"s,
      "GET /hello HTTP/1.1\r\nHost: t\r\nX: a\rb\r\n\r\n",
      "GET /%00 HTTP/1.1\r\nHost: t\r\n\r\n",
      "GET /%zz HTTP/1.1\r\nHost: t\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: -1\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 1x\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 99999999999999999999\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
      // Both framings at once: the two ends of a proxy might disagree on where the next request
      // starts.
      "POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
      "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
      "POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
      "POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
  };
  for (const std::string& request : bad) {
    SCOPED_TRACE(request);
    TestClient client(server.port());
    client.send(request);
    expect_refused(client, 400);
  }
}

TEST(Limits, AnUnknownTransferEncodingIs501AndAnUnknownExpectationIs417) {
  TestServer server;
  for (const char* encoding : {"gzip", "gzip, chunked", "chunked, gzip", "identity", "xchunked"}) {
    SCOPED_TRACE(encoding);
    TestClient client(server.port());
    client.send(std::string("POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: ") + encoding +
                "\r\n\r\n");
    expect_refused(client, 501);
  }
  TestClient client(server.port());
  client.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\nExpect: more\r\n\r\n");
  expect_refused(client, 417);
}

TEST(Limits, AHeaderOrBodyThatTakesTooLongIs408) {
  ServerOptions options = TestServer::defaults();
  options.header_timeout = options.body_timeout = std::chrono::milliseconds(100);
  TestServer server(options);
  TestClient header(server.port());
  TestClient body(server.port());
  header.send("GET /hello HTTP/1.1\r\nHos");
  body.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 10\r\n\r\n12345");
  expect_refused(header, 408);
  expect_refused(body, 408);
}

TEST(Limits, DribblingBytesDoesNotMoveTheDeadline) {
  ServerOptions options = TestServer::defaults();
  options.header_timeout = std::chrono::milliseconds(100);
  TestServer server(options);
  TestClient client(server.port());
  client.send("GET /hello HTTP/1.1\r\nX: ");
  std::atomic<bool> stop = false;
  std::thread dribbler([&] {
    while (!stop && client.send("x")) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  });
  EXPECT_EQ(client.response().status, 408);
  stop = true;
  dribbler.join();
}

TEST(Limits, AConnectionThatAsksNothingIsClosedWithoutAWord) {
  ServerOptions options = TestServer::defaults();
  options.header_timeout = options.idle_timeout = std::chrono::milliseconds(50);
  TestServer server(options);
  TestClient never(server.port());
  EXPECT_EQ(never.response().status, 0);
  TestClient once(server.port());
  once.request("GET", "/hello");
  EXPECT_EQ(once.response().status, 200);
  EXPECT_EQ(once.response().status, 0);
  EXPECT_TRUE(eventually([&] { return server.server->connection_count() == 0; }));
}

TEST(Limits, APendingResponseHasNoDeadline) {
  ServerOptions options = TestServer::defaults();
  options.header_timeout = options.body_timeout = options.idle_timeout = options.write_timeout =
      std::chrono::milliseconds(20);
  TestServer server(options);
  TestClient client(server.port());
  client.request("GET", "/park");
  const auto writer = server.parked.wait();
  ASSERT_NE(writer, nullptr);
  EXPECT_TRUE(client.quiet_for(std::chrono::milliseconds(100)));
  writer->send(Response{200, {}, "late"});
  EXPECT_EQ(client.response().body, "late");
}

TEST(Limits, OneConnectionTooManyIs503AndAFreedPlaceIsTaken) {
  ServerOptions options = TestServer::defaults();
  options.max_connections = 2;
  TestServer server(options);
  TestClient a(server.port());
  a.request("GET", "/hello");
  EXPECT_EQ(a.response().status, 200);
  auto b = std::make_unique<TestClient>(server.port());
  b->request("GET", "/hello");
  EXPECT_EQ(b->response().status, 200);
  {
    TestClient refused(server.port());
    refused.request("GET", "/hello");
    expect_refused(refused, 503);
  }
  b.reset();
  ASSERT_TRUE(eventually([&] { return server.server->connection_count() == 1; }));
  TestClient c(server.port());
  c.request("GET", "/hello");
  EXPECT_EQ(c.response().status, 200);
}

}  // namespace
}  // namespace pacer::http
