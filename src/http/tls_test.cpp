// The server over TLS: the same promises as without it, and those that only TLS can break.
#include <gtest/gtest.h>

#include <csignal>

#include "http/test_server.h"
#include "http/test_tls.h"

namespace pacer::http {
namespace {

class Tls : public testing::Test {
 protected:
  Tls() {
    std::signal(SIGPIPE, SIG_IGN);  // SSL_write() of the clients raises it
    make_certificate(folder, "good");
  }
  ServerOptions options() const {
    ServerOptions out = TestServer::defaults();
    out.tls_certificate_file = folder.file("good.crt");
    out.tls_key_file = folder.file("good.key");
    return out;
  }
  TestFolder folder;
};

TEST_F(Tls, AnswersRequestsOnOneConnection) {
  TestServer server(options());
  TlsTestClient client(server.port());
  ASSERT_TRUE(client.shaken());
  EXPECT_EQ(client.protocol(), "http/1.1");
  EXPECT_EQ(client.version(), TLS1_3_VERSION);
  for (int i = 0; i < 20; ++i) {
    client.request("POST", "/echo", "body " + std::to_string(i));
    ASSERT_EQ(client.response().body, "body " + std::to_string(i));
  }
  client.request("GET", "/what");
  EXPECT_EQ(client.response().body, "GET /what|||127.0.0.1");
}

TEST_F(Tls, Version12IsSpokenAndOlderOnesAreNot) {
  TestServer server(options());
  TlsTestClient good(server.port(), {.version_max = TLS1_2_VERSION});
  EXPECT_EQ(good.version(), TLS1_2_VERSION);
  good.request("GET", "/hello");
  EXPECT_EQ(good.response().body, "hello");
  TlsTestClient old(server.port(), {.version_max = TLS1_1_VERSION});
  EXPECT_FALSE(old.shaken());
}

TEST_F(Tls, AClientThatOffersOnlyOtherProtocolsIsRefusedAndOneThatOffersNoneIsNot) {
  TestServer server(options());
  EXPECT_FALSE(TlsTestClient(server.port(), {.protocols = "\x02h2"}).shaken());
  EXPECT_TRUE(TlsTestClient(server.port(), {.protocols = "\x08http/1.0"}).shaken());
  TlsTestClient none(server.port(), {.protocols = ""});
  EXPECT_TRUE(none.shaken());
  none.request("GET", "/hello");
  EXPECT_EQ(none.response().body, "hello");
}

TEST_F(Tls, LargeBodiesPassBothWays) {
  TestServer server(options());
  TlsTestClient client(server.port());
  std::string body(8u << 20, '\0');
  for (size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>(i * 2654435761u >> 13);
  client.request("POST", "/echo", body);
  EXPECT_TRUE(client.response().body == body);  // 8 MiB would drown a message
}

TEST_F(Tls, PipelinedRequestsAreAnsweredInOrderAlsoBehindAPendingResponse) {
  TestServer server(options());
  TlsTestClient client(server.port());
  client.request("GET", "/park");
  for (int i = 0; i < 50; ++i) client.request("POST", "/echo", std::to_string(i));
  const auto writer = server.parked.wait();
  ASSERT_NE(writer, nullptr);
  writer->send(Response{200, {}, "first"});
  EXPECT_EQ(client.response().body, "first");
  for (int i = 0; i < 50; ++i) EXPECT_EQ(client.response().body, std::to_string(i));
}

TEST_F(Tls, AStreamArrivesWhileItIsWrittenAndEndsWithCloseNotify) {
  TestServer server(options());
  TlsTestClient client(server.port());
  client.request("GET", "/stream", {}, "Connection: close\r\n");
  const auto writer = server.parked.wait();
  ASSERT_NE(writer, nullptr);
  EXPECT_EQ(client.response_head().status, 200);
  for (int i = 0; i < 20; ++i) {
    const std::string event = "data: " + std::to_string(i) + "\n\n";
    writer->write(event);
    EXPECT_EQ(client.chunk(), event);
  }
  writer->end();
  EXPECT_EQ(client.chunk(), "");
  EXPECT_TRUE(client.closed());
  EXPECT_TRUE(client.got_close_notify());
}

TEST_F(Tls, AStreamThatIsCutHasNoCloseNotify) {
  TestServer server(options());
  TlsTestClient client(server.port());
  client.request("GET", "/stream");
  ASSERT_NE(server.parked.wait(), nullptr);
  EXPECT_EQ(client.response_head().status, 200);
  server.parked.clear();
  EXPECT_EQ(client.chunk(), std::nullopt);
  EXPECT_FALSE(client.got_close_notify());
}

TEST_F(Tls, APeerThatLeavesIsNoticedHoweverItLeaves) {
  TestServer server(options());
  int expected = 0;
  for (const char* path : {"/park", "/stream"}) {
    for (const char* how : {"close_notify", "close", "reset", "half"}) {
      SCOPED_TRACE(std::string(path) + " " + how);
      TlsTestClient client(server.port());
      client.request("GET", path);
      ASSERT_NE(server.parked.wait(static_cast<size_t>(expected)), nullptr);
      if (how == std::string("close_notify")) client.send_close_notify();
      if (how == std::string("close")) client.close();
      if (how == std::string("reset")) client.reset();
      if (how == std::string("half")) client.close_sending_side();
      ++expected;
      EXPECT_TRUE(eventually([&] { return server.gone == expected; }));
    }
  }
  EXPECT_TRUE(eventually([&] { return server.server->connection_count() == 0; }));
}

TEST_F(Tls, APeerThatHasFinishedSendingStillGetsAReadyResponse) {
  TestServer server(options());
  for (const bool by_notify : {true, false}) {
    TlsTestClient client(server.port());
    client.request("GET", "/big");
    if (by_notify) {
      client.send_close_notify();
    } else {
      client.close_sending_side();
    }
    EXPECT_EQ(client.response().body.size(), 4u << 20);
    EXPECT_TRUE(client.closed());
    EXPECT_TRUE(client.got_close_notify());
  }
}

TEST_F(Tls, APeerThatSendsALargeBodyRegardlessCanStillReadThe413) {
  TestServer server(options());
  TlsTestClient client(server.port());
  client.request("POST", "/echo", std::string(20u << 20, 'x'));
  EXPECT_EQ(client.response().status, 413);
  EXPECT_TRUE(client.closed());
}

TEST_F(Tls, SlowAndBrokenHandshakesAreDroppedAndHoldNobody) {
  ServerOptions slow = options();
  slow.header_timeout = std::chrono::milliseconds(300);
  slow.io_threads = 1;
  TestServer server(slow);
  std::vector<std::unique_ptr<TestClient>> silent;
  for (int i = 0; i < 20; ++i) {
    silent.push_back(std::make_unique<TestClient>(server.port()));
    silent.back()->send("\x16\x03\x01");  // the start of a handshake, and no more
  }
  TestClient garbage(server.port());
  garbage.send(std::string(500, '\xff'));
  EXPECT_TRUE(garbage.closed());
  TlsTestClient good(server.port());
  good.request("GET", "/hello");
  EXPECT_EQ(good.response().body, "hello");
  for (const auto& client : silent) EXPECT_TRUE(client->closed());
}

TEST_F(Tls, AfterItsHandshakeASilentPeerIsClosedWithCloseNotify) {
  ServerOptions hasty = options();
  hasty.header_timeout = std::chrono::milliseconds(500);
  TestServer server(hasty);
  TlsTestClient client(server.port());
  ASSERT_TRUE(client.shaken());
  EXPECT_TRUE(client.closed());
  EXPECT_TRUE(client.got_close_notify());
  EXPECT_TRUE(eventually([&] { return server.server->connection_count() == 0; }));
}

TEST_F(Tls, PlainHttpIsToldSo) {
  TestServer server(options());
  TestClient client(server.port());
  client.request("GET", "/hello");
  const TestResponse response = client.response();
  EXPECT_EQ(response.status, 400);
  EXPECT_NE(response.body.find("https://"), std::string::npos) << response.body;
  EXPECT_EQ(response.header("X-Request-Id").size(), 32u);
  EXPECT_TRUE(client.closed());
}

TEST_F(Tls, OneConnectionTooManyIs503) {
  ServerOptions few = options();
  few.max_connections = 1;
  TestServer server(few);
  TlsTestClient first(server.port());
  first.request("GET", "/hello");
  EXPECT_EQ(first.response().status, 200);
  TlsTestClient second(server.port());
  second.request("GET", "/hello");
  EXPECT_EQ(second.response().status, 503);
  EXPECT_TRUE(second.closed());
}

TEST_F(Tls, AReaderThatTakesNothingIsDropped) {
  ServerOptions hasty = options();
  hasty.write_timeout = std::chrono::milliseconds(200);
  TestServer server(hasty);
  TlsTestClient client(server.port(), {}, /*receive_buffer=*/4096);
  for (int i = 0; i < 3; ++i) client.request("GET", "/big");
  EXPECT_TRUE(eventually([&] { return server.server->connection_count() == 0; }));
}

TEST_F(Tls, ADrainClosesWhoIsIdleAndLetsOpenStreamsEnd) {
  TestServer server(options());
  TlsTestClient idle(server.port());
  idle.request("GET", "/hello");
  EXPECT_EQ(idle.response().status, 200);
  TlsTestClient busy(server.port());
  busy.request("GET", "/stream");
  TestClient shaking(server.port());
  ASSERT_TRUE(eventually([&] { return server.server->connection_count() == 3; }));
  const auto writer = server.parked.wait();
  ASSERT_NE(writer, nullptr);
  server.server->stop_accepting();
  EXPECT_TRUE(idle.closed());
  EXPECT_TRUE(idle.got_close_notify());
  EXPECT_TRUE(shaking.closed());
  writer->write("last");
  writer->end();
  EXPECT_EQ(busy.response().body, "last");
  EXPECT_TRUE(busy.closed());
}

TEST_F(Tls, StopsWithHandshakesStreamsAndWritersUnderWay) {
  TestServer server(options());
  std::vector<std::unique_ptr<TlsTestClient>> clients;
  for (size_t i = 0; i < 10; ++i) {
    clients.push_back(std::make_unique<TlsTestClient>(server.port()));
    clients.back()->request("GET", "/stream");
    ASSERT_NE(server.parked.wait(i), nullptr);
  }
  TestClient shaking(server.port());
  std::atomic<bool> stop = false;
  std::thread engine([&] {
    while (!stop) {
      for (size_t i = 0; i < 10; ++i) server.parked.wait(i)->write("data: x\n\n");
    }
  });
  server.server->stop();
  EXPECT_EQ(server.gone, 10);
  stop = true;
  engine.join();
  for (const auto& client : clients) {
    EXPECT_TRUE(client->closed());
    EXPECT_FALSE(client->got_close_notify());
  }
}

TEST_F(Tls, ManyPeersReadTheirOwnStreams) {
  constexpr size_t kStreams = 40;
  TestServer server(options());
  std::vector<std::unique_ptr<TlsTestClient>> clients;
  for (size_t i = 0; i < kStreams; ++i) {
    clients.push_back(std::make_unique<TlsTestClient>(server.port()));
    clients.back()->request("GET", "/stream");
    ASSERT_NE(server.parked.wait(i), nullptr);
  }
  std::thread engine([&] {
    for (int event = 0; event < 20; ++event) {
      for (size_t i = 0; i < kStreams; ++i) server.parked.wait(i)->write(std::to_string(i) + ";");
    }
    for (size_t i = 0; i < kStreams; ++i) server.parked.wait(i)->end();
  });
  for (size_t i = 0; i < kStreams; ++i) {
    std::string expected;
    for (int event = 0; event < 20; ++event) expected += std::to_string(i) + ";";
    EXPECT_EQ(clients[i]->response().body, expected);
  }
  engine.join();
}

TEST_F(Tls, FilesThatCannotBeUsedAreOneSentenceAtTheStart) {
  make_certificate(folder, "other");
  const std::string empty = folder.write("empty", "");
  const std::string noise = folder.write("noise", "this is not PEM\n");
  const std::string broken =
      folder.write("broken", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
  const std::string encrypted =
      folder.write("encrypted",
                   "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n"
                   "DEK-Info: AES-128-CBC,0123456789ABCDEF0123456789ABCDEF\n\n"
                   "AAAAAAAAAAAAAAAAAAAAAA==\n-----END EC PRIVATE KEY-----\n");
  const std::string certificate = folder.file("good.crt");
  const std::string key = folder.file("good.key");
  struct Case {
    std::string certificate, key, named, said;
  };
  const Case cases[] = {
      {certificate, "", "key", "missing"},
      {"", key, "certificate", "missing"},
      {folder.file("nowhere"), key, "nowhere", "No such file"},
      {certificate, folder.file("nowhere"), "nowhere", "No such file"},
      {folder.file("."), key, "certificate file", "directory"},
      {empty, key, empty, "empty"},
      {certificate, empty, empty, "empty"},
      {noise, key, noise, "no usable certificate"},
      {broken, key, broken, "no usable certificate"},
      {certificate, noise, noise, "no usable private key"},
      {certificate, certificate, certificate, "no usable private key"},
      {key, certificate, key, "no usable certificate"},
      {certificate, folder.file("other.key"), "other.key", "is not the one of the certificate"},
      {certificate, encrypted, encrypted, "encrypted"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.certificate + " + " + c.key);
    ServerOptions wrong = TestServer::defaults();
    wrong.tls_certificate_file = c.certificate;
    wrong.tls_key_file = c.key;
    const auto started = Server::start(wrong, Router{});
    ASSERT_FALSE(started);
    const std::string& message = started.error().message;
    EXPECT_NE(message.find(c.named), std::string::npos) << message;
    EXPECT_NE(message.find(c.said), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST_F(Tls, ACertificateOutOfItsTimeIsServedAllTheSame) {
  make_certificate(folder, "expired", -7200, -3600);
  make_certificate(folder, "early", 3600, 7200);
  for (const char* name : {"expired", "early"}) {
    ServerOptions odd = TestServer::defaults();
    odd.tls_certificate_file = folder.file(std::string(name) + ".crt");
    odd.tls_key_file = folder.file(std::string(name) + ".key");
    TestServer server(odd);
    TlsTestClient client(server.port());
    client.request("GET", "/hello");
    EXPECT_EQ(client.response().body, "hello");
  }
}

}  // namespace
}  // namespace pacer::http
