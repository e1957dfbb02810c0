// What happens to a request before its handler: its id, gates, the budget of bodies, and a router
// that is replaced under it.
#include <gtest/gtest.h>

#include <set>

#include "http/body_budget.h"
#include "http/request_id.h"
#include "http/test_server.h"

namespace pacer::http {
namespace {

std::string id_field(const std::string& id) {
  return "X-Request-Id: " + id + "\r\n";
}

TEST(RequestId, IsOfVisibleAsciiAndNotLong) {
  EXPECT_TRUE(is_request_id("a"));
  EXPECT_TRUE(is_request_id(std::string(128, '~')));
  EXPECT_TRUE(is_request_id("!-\"quoted\"-{}"));
  EXPECT_FALSE(is_request_id(""));
  EXPECT_FALSE(is_request_id(std::string(129, 'a')));
  EXPECT_FALSE(is_request_id("a b"));
  EXPECT_FALSE(is_request_id("a\tb"));
  EXPECT_FALSE(is_request_id("a\x7f"));
  EXPECT_FALSE(is_request_id("\xc3\xa4"));
}

TEST(RequestId, FreshOnesAreHexAndDiffer) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::string id = random_request_id();
    EXPECT_EQ(id.size(), 32u);
    EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos) << id;
    seen.insert(id);
  }
  EXPECT_EQ(seen.size(), 1000u);
}

TEST(RequestId, TheClientsComesBackAndAnUnusableOneIsReplaced) {
  TestServer server;
  TestClient client(server.port());
  client.request("GET", "/hello", {}, id_field("client-17"));
  EXPECT_EQ(client.response().header("X-Request-Id"), "client-17");
  for (const std::string& unusable :
       {std::string(), std::string("a b"), std::string(129, 'x'), std::string("\xc3\xa4")}) {
    client.request("GET", "/hello", {}, id_field(unusable));
    const std::string id = client.response().header("X-Request-Id");
    EXPECT_EQ(id.size(), 32u) << id;
  }
  client.request("GET", "/hello", {}, id_field("one") + id_field("two"));
  EXPECT_EQ(client.response().header("X-Request-Id").size(), 32u);
  client.request("GET", "/hello");
  const std::string first = client.response().header("X-Request-Id");
  client.request("GET", "/hello");
  EXPECT_NE(client.response().header("X-Request-Id"), first);
}

TEST(RequestId, IsOnEveryResponseWhateverBecomesOfTheRequest) {
  ServerOptions options = TestServer::defaults();
  options.header_timeout = options.body_timeout = std::chrono::milliseconds(200);
  options.make_request_id = [] { return std::string("made"); };
  TestServer server(options);
  const std::string known = "Host: t\r\n" + id_field("theirs");
  struct Case {
    std::string request;
    int status;
    const char* id;
  };
  const Case cases[] = {
      {"GET /nowhere HTTP/1.1\r\n" + known + "\r\n", 404, "theirs"},
      {"PUT /hello HTTP/1.1\r\n" + known + "\r\n", 405, "theirs"},
      {"OPTIONS /hello HTTP/1.1\r\n" + known + "\r\n", 204, "theirs"},
      {"GET /throw HTTP/1.1\r\n" + known + "\r\n", 500, "theirs"},
      {"GET /drop HTTP/1.1\r\n" + known + "\r\n", 500, "theirs"},
      {"POST /closed HTTP/1.1\r\n" + known + "Content-Length: 9\r\n\r\n", 401, "theirs"},
      {"POST /echo HTTP/1.1\r\n" + known + "Content-Length: 9\r\n\r\n", 408, "theirs"},
      {"POST /echo HTTP/1.1\r\n" + known + "Content-Length: 999999999\r\n\r\n", 413, "theirs"},
      {"POST /echo HTTP/1.1\r\n" + known + "Expect: x\r\n\r\n", 417, "theirs"},
      {"GET /%zz HTTP/1.1\r\n" + known + "\r\n", 400, "theirs"},
      {"POST /echo HTTP/1.1\r\n" + known + "Transfer-Encoding: chunked\r\n\r\nz\r\n", 400,
       "theirs"},
      // Never understood, so what it may say of its id is not known.
      {"GET /hello HTTP/1.1\r\n" + known, 408, "made"},
      {"nonsense\r\n\r\n", 400, "made"},
      {"GET /hello HTTP/1.1\r\nX: " + std::string(20'000, 'x'), 431, "made"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.request.substr(0, 100));
    TestClient client(server.port());
    client.send(c.request);
    const TestResponse response = client.response();
    EXPECT_EQ(response.status, c.status);
    EXPECT_EQ(response.headers.count("X-Request-Id"), 1u);
    EXPECT_EQ(response.header("X-Request-Id"), c.id);
  }
}

TEST(RequestId, IsOnStreamsAndOnConnectionsTooMany) {
  ServerOptions options = TestServer::defaults();
  options.max_connections = 1;
  TestServer server(options);
  TestClient client(server.port());
  client.request("GET", "/stream", {}, id_field("s"));
  EXPECT_EQ(client.response_head().header("X-Request-Id"), "s");
  TestClient refused(server.port());
  const TestResponse response = refused.response();
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(response.header("X-Request-Id").size(), 32u);
  EXPECT_EQ(response.header("Retry-After"), "1");
}

TEST(Gate, RefusesBeforeTheBodyIsTaken) {
  TestServer server;
  TestClient client(server.port());
  client.send(
      "POST /closed HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n");
  const TestResponse response = client.response();  // and not a 100 first
  EXPECT_EQ(response.status, 401);
  EXPECT_EQ(response.header("WWW-Authenticate"), "Bearer");
  EXPECT_EQ(response.body, "no key");
  EXPECT_EQ(response.header("Connection"), "close");
  EXPECT_TRUE(client.closed());
  EXPECT_EQ(server.entered, 0);
  EXPECT_EQ(server.server->body_bytes(), 0u);
}

TEST(Gate, WithoutABodyTheConnectionGoesOn) {
  TestServer server;
  TestClient client(server.port());
  client.request("POST", "/closed");
  EXPECT_EQ(client.response().status, 401);
  client.request("GET", "/hello");
  EXPECT_EQ(client.response().body, "hello");
}

TEST(Gate, ABodyThatFollowsIsNotTakenForARequest) {
  TestServer server;
  TestClient client(server.port());
  client.request("POST", "/closed", "GET /hello HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_EQ(client.response().status, 401);
  EXPECT_EQ(client.response().status, 0);  // closed, and nothing more was said
}

// A server whose one gate wants "Key: yes", and tells what it was shown.
Router keyed(std::string* shown) {
  Router router;
  const Gate gate = [shown](const RequestHead& head) -> std::optional<Response> {
    *shown += head.method + " " + head.path + " " + head.path_param + " " + head.id + ";";
    const std::string* key = head.headers.find("Key");
    if (key != nullptr && *key == "yes") return std::nullopt;
    return Response{401, {}, "no"};
  };
  const Handler hello = [](const Request& request, std::shared_ptr<ResponseWriter> writer) {
    writer->send(Response{200, {}, "hello " + request.body});
  };
  router.add("GET", "/v1/models/{id...}", hello, gate);
  router.add("POST", "/post", hello, gate);
  router.add("GET", "/open", hello);
  router.set_unmatched_gate(gate);
  return router;
}

TEST(Gate, SeesTheHeadAndLetsPass) {
  std::string shown;
  auto server = *Server::start(TestServer::defaults(), keyed(&shown));
  TestClient client(server->port());
  const std::string key = "Key: yes\r\nX-Request-Id: 7\r\n";
  client.request("POST", "/post", "world", key);
  EXPECT_EQ(client.response().body, "hello world");
  client.request("GET", "/v1/models/org%20x/name?q", {}, key);
  EXPECT_EQ(client.response().body, "hello ");
  EXPECT_EQ(shown, "POST /post  7;GET /v1/models/org x/name org x/name 7;");
}

TEST(Gate, OfGetKeepsHeadAndTheUnmatchedOneKeepsTheRest) {
  std::string shown;
  auto server = *Server::start(TestServer::defaults(), keyed(&shown));
  TestClient client(server->port());
  const auto status = [&](const char* method, const char* path, const char* fields) {
    client.request(method, path, {}, fields);
    return client.response(method == std::string("HEAD")).status;
  };
  EXPECT_EQ(status("HEAD", "/v1/models/x", ""), 401);
  EXPECT_EQ(status("HEAD", "/v1/models/x", "Key: yes\r\n"), 200);
  EXPECT_EQ(status("GET", "/open", ""), 200);
  EXPECT_EQ(status("HEAD", "/open", ""), 200);
  EXPECT_EQ(status("GET", "/nowhere", ""), 401);
  EXPECT_EQ(status("GET", "/nowhere", "Key: yes\r\n"), 404);
  EXPECT_EQ(status("DELETE", "/post", ""), 401);
  EXPECT_EQ(status("DELETE", "/post", "Key: yes\r\n"), 405);
  EXPECT_EQ(status("GET", "/%6fpen", ""), 200);  // one path, however it is written
  EXPECT_EQ(status("GET", "//open", ""), 401);
}

TEST(Gate, ATrailerCannotOpenIt) {
  std::string shown;
  auto server = *Server::start(TestServer::defaults(), keyed(&shown));
  TestClient client(server->port());
  client.send(
      "POST /post HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
      "1\r\nx\r\n0\r\nKey: yes\r\n\r\n");
  EXPECT_EQ(client.response().status, 401);
}

TEST(Gate, ThatThrowsIsA500) {
  Router router;
  router.add(
      "GET", "/", [](const Request&, std::shared_ptr<ResponseWriter>) { FAIL() << "let in"; },
      [](const RequestHead&) -> std::optional<Response> { throw std::runtime_error("secret"); });
  auto server = *Server::start(TestServer::defaults(), std::move(router));
  TestClient client(server->port());
  client.request("GET", "/");
  const TestResponse response = client.response();
  EXPECT_EQ(response.status, 500);
  EXPECT_EQ(response.body.find("secret"), std::string::npos);
}

ServerOptions with_budget(size_t one, size_t all) {
  ServerOptions options = TestServer::defaults();
  options.max_body_bytes = one;
  options.max_body_bytes_total = all;
  return options;
}

TEST(BodyBudget, GivesAllOrNothing) {
  BodyBudget budget;
  budget.set_limit(10);
  BodyShare a(budget);
  EXPECT_TRUE(a.grow_to(6));
  EXPECT_TRUE(a.grow_to(6));
  {
    BodyShare b(budget);
    EXPECT_FALSE(b.grow_to(5));
    EXPECT_EQ(budget.used(), 6u);
    EXPECT_TRUE(b.grow_to(4));
    EXPECT_EQ(budget.left(), 0u);
    EXPECT_FALSE(a.grow_to(SIZE_MAX));
  }
  EXPECT_EQ(budget.left(), 4u);
  a.release();
  a.release();
  EXPECT_EQ(budget.used(), 0u);
}

TEST(BodyBudget, ABodyThatDoesNotFitBesideOthersIs503UntilTheyEnd) {
  TestServer server(with_budget(1000, 1500));
  TestClient holder(server.port());
  holder.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 1000\r\n\r\n" +
              std::string(999, 'x'));
  ASSERT_TRUE(eventually([&] { return server.server->body_bytes() == 999u; }));

  TestClient fits(server.port());
  fits.request("POST", "/echo", std::string(500, 'x'));
  EXPECT_EQ(fits.response().status, 200);
  ASSERT_TRUE(eventually([&] { return server.server->body_bytes() == 999u; }));
  TestClient refused(server.port());
  refused.request("POST", "/echo", std::string(502, 'x'));
  const TestResponse response = refused.response();
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(response.header("Retry-After"), "1");
  EXPECT_TRUE(refused.closed());

  holder.send("x");
  EXPECT_EQ(holder.response().status, 200);
  ASSERT_TRUE(eventually([&] { return server.server->body_bytes() == 0; }));
  TestClient again(server.port());
  again.request("POST", "/echo", std::string(1000, 'x'));
  EXPECT_EQ(again.response().status, 200);
}

TEST(BodyBudget, ABodyThatItsHandlerHasReadIsNotHeldUntilTheAnswer) {
  TestServer server(with_budget(1000, 1500));
  TestClient waiting(server.port());
  waiting.request("POST", "/park", std::string(1000, 'x'));
  const auto writer = server.parked.wait();
  ASSERT_NE(writer, nullptr);
  EXPECT_TRUE(eventually([&] { return server.server->body_bytes() == 0; }));
  writer->send(Response{200, {}, "done"});
  EXPECT_EQ(waiting.response().body, "done");
}

TEST(BodyBudget, CountsWhatCameAndNotWhatWasAnnounced) {
  TestServer server(with_budget(1000, 1000));
  TestClient announcer(server.port());
  announcer.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 1000\r\n\r\n12345");
  ASSERT_TRUE(eventually([&] { return server.server->body_bytes() == 5; }));
  TestClient client(server.port());
  client.request("POST", "/echo", std::string(995, 'x'));
  EXPECT_EQ(client.response().status, 200);
}

TEST(BodyBudget, ChunksThatComeWhenItIsFullEndTheirRequest) {
  TestServer server(with_budget(1000, 1000));
  TestClient first(server.port());
  TestClient second(server.port());
  for (TestClient* client : {&first, &second}) {
    client->send("POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n");
  }
  first.send("1F4\r\n" + std::string(500, 'x') + "\r\n");
  ASSERT_TRUE(eventually([&] { return server.server->body_bytes() == 500; }));
  second.send("1F5\r\n" + std::string(501, 'x') + "\r\n");
  EXPECT_EQ(second.response().status, 503);
  first.send("0\r\n\r\n");
  EXPECT_EQ(first.response().body.size(), 500u);
  EXPECT_TRUE(eventually([&] { return server.server->body_bytes() == 0; }));
}

TEST(BodyBudget, NothingIsLostWhicheverWayARequestEnds) {
  ServerOptions options = with_budget(1 << 20, 8 << 20);
  options.body_timeout = std::chrono::milliseconds(200);
  TestServer server(options);
  const std::string body(100'000, 'x');
  const std::string length = "Content-Length: 200000\r\n\r\n";
  std::vector<std::unique_ptr<TestClient>> open;
  for (int round = 0; round < 10; ++round) {
    const auto client = [&]() -> TestClient& {
      open.push_back(std::make_unique<TestClient>(server.port()));
      return *open.back();
    };
    TestClient& half = client();  // a 408
    half.send("POST /echo HTTP/1.1\r\nHost: t\r\n" + length + body);
    TestClient& left = client();  // gone in mid body
    left.send("POST /echo HTTP/1.1\r\nHost: t\r\n" + length + body);
    left.close();
    TestClient& broken = client();  // a 400 in mid body
    broken.send(
        "POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
        "3\r\nabc\r\nzz\r\n");
    TestClient& parked = client();  // gone while handled
    parked.request("POST", "/park", body);
    ASSERT_NE(server.parked.wait(static_cast<size_t>(round)), nullptr);
    parked.reset();
    TestClient& whole = client();
    whole.request("POST", "/echo", body);
    EXPECT_EQ(whole.response().status, 200);
    client().request("POST", "/closed", body);
    client().request("POST", "/nowhere", body);
  }
  EXPECT_TRUE(eventually([&] { return server.server->body_bytes() == 0; }))
      << server.server->body_bytes();
  EXPECT_TRUE(eventually([&] { return server.gone == 10; }));
}

TEST(BodyBudget, ThatIsSmallerThanOneBodyIsRefusedAtTheStart) {
  const auto started = Server::start(with_budget(1001, 1000), Router{});
  ASSERT_FALSE(started);
  EXPECT_NE(started.error().message.find("1001"), std::string::npos);
  EXPECT_NE(started.error().message.find("1000"), std::string::npos);
}

Router saying(std::string word) {
  Router router;
  const auto handler = [word](const Request& request, std::shared_ptr<ResponseWriter> writer) {
    writer->send(Response{200, {}, word + request.body});
  };
  router.add("POST", "/say", handler);
  return router;
}

TEST(SetRouter, LaterRequestsMeetTheNewOneOnOldConnectionsToo) {
  auto server = *Server::start(TestServer::defaults(), saying("old"));
  TestClient client(server->port());
  client.request("POST", "/say");
  EXPECT_EQ(client.response().body, "old");
  server->set_router(saying("new"));
  client.request("POST", "/say");
  EXPECT_EQ(client.response().body, "new");
}

TEST(SetRouter, ARequestWhoseHeaderWasReadKeepsTheOldOne) {
  auto server = *Server::start(TestServer::defaults(), saying("old"));
  TestClient client(server->port());
  client.send("POST /say HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n");
  EXPECT_EQ(client.response().status, 100);
  server->set_router(saying("new"));
  client.send("!");
  EXPECT_EQ(client.response().body, "old!");
}

TEST(SetRouter, TheOldOneLivesAsLongAsItsRequestsAndNoLonger) {
  auto alive = std::make_shared<int>();
  const std::weak_ptr<int> watched = alive;
  Parked parked;
  Router router;
  router.add("GET", "/park",
             [alive, &parked](const Request&, std::shared_ptr<ResponseWriter> writer) {
               parked.add(std::move(writer));
             });
  auto server = *Server::start(TestServer::defaults(), std::move(router));
  alive.reset();
  TestClient client(server->port());
  client.request("GET", "/park");
  const auto writer = parked.wait();
  ASSERT_NE(writer, nullptr);
  server->set_router(saying("new"));
  EXPECT_FALSE(watched.expired());
  writer->send(Response{200, {}, "done"});
  EXPECT_EQ(client.response().body, "done");
  EXPECT_TRUE(eventually([&] { return watched.expired(); }));
}

TEST(SetRouter, MayHappenAnyTimeUnderLoad) {
  auto server = *Server::start(TestServer::defaults(), saying("word"));
  std::atomic<bool> stop = false;
  std::thread setter([&] {
    while (!stop) server->set_router(saying("word"));
  });
  std::vector<std::thread> clients;
  for (int t = 0; t < 3; ++t) {
    clients.emplace_back([&] {
      TestClient client(server->port());
      for (int i = 0; i < 200; ++i) {
        client.request("POST", "/say", "!");
        ASSERT_EQ(client.response().body, "word!");
      }
    });
  }
  for (std::thread& client : clients) client.join();
  stop = true;
  setter.join();
}

}  // namespace
}  // namespace pacer::http
