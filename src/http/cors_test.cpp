#include "http/cors.h"

#include <gtest/gtest.h>

#include "http/test_server.h"

namespace pacer::http {
namespace {

constexpr const char* kPage = "https://app.example:8443";

ServerOptions with_origins(std::vector<std::string> origins) {
  ServerOptions options = TestServer::defaults();
  options.allowed_origins = std::move(origins);
  return options;
}

std::string origin(const std::string& value) {
  return "Origin: " + value + "\r\n";
}

std::string preflight(const std::string& from) {
  return origin(from) +
         "Access-Control-Request-Method: POST\r\n"
         "Access-Control-Request-Headers: authorization,content-type\r\n";
}

TEST(Cors, APreflightIsAnsweredBeforeGatesAndHandlers) {
  TestServer server(with_origins({"http://localhost:3000", kPage}));
  TestClient client(server.port());
  for (const char* path : {"/closed", "/echo", "/nowhere"}) {
    SCOPED_TRACE(path);
    client.request("OPTIONS", path, {}, preflight(kPage));
    const TestResponse response = client.response();
    EXPECT_EQ(response.status, 204);
    EXPECT_EQ(response.header("Access-Control-Allow-Origin"), kPage);
    EXPECT_NE(response.header("Access-Control-Allow-Methods").find("POST"), std::string::npos);
    EXPECT_EQ(response.header("Access-Control-Allow-Headers"), "authorization,content-type");
    EXPECT_EQ(response.header("Access-Control-Max-Age"), "7200");
    EXPECT_EQ(response.header("Vary"), "Origin");
    EXPECT_EQ(response.header("Access-Control-Allow-Credentials"), "");
    EXPECT_FALSE(response.header("X-Request-Id").empty());
  }
  EXPECT_EQ(server.entered, 0);
}

TEST(Cors, EveryResponseToAnAllowedPageSaysSoErrorsAndStreamsIncluded) {
  TestServer server(with_origins({kPage}));
  const std::string from = origin(kPage);
  const auto expect_allowed = [&](const TestResponse& response, int status) {
    EXPECT_EQ(response.status, status);
    EXPECT_EQ(response.header("Access-Control-Allow-Origin"), kPage);
    EXPECT_EQ(response.header("Access-Control-Expose-Headers"), "X-Request-Id, Retry-After");
    EXPECT_EQ(response.header("Vary"), "Origin");
  };
  TestClient client(server.port());
  client.request("GET", "/hello", {}, from);
  expect_allowed(client.response(), 200);
  client.request("GET", "/nowhere", {}, from);
  expect_allowed(client.response(), 404);
  client.request("GET", "/throw", {}, from);
  expect_allowed(client.response(), 500);
  client.request("GET", "/stream", {}, from);
  const auto writer = server.parked.wait();
  ASSERT_NE(writer, nullptr);
  writer->end();
  expect_allowed(client.response(), 200);
  client.request("POST", "/closed", "body", from);
  expect_allowed(client.response(), 401);
  TestClient large(server.port());
  large.send("POST /echo HTTP/1.1\r\nHost: t\r\n" + from + "Content-Length: 999999999\r\n\r\n");
  expect_allowed(large.response(), 413);
  TestClient wrong(server.port());
  wrong.send("POST /echo HTTP/1.1\r\nHost: t\r\n" + from + "Expect: more\r\n\r\n");
  expect_allowed(wrong.response(), 417);
}

TEST(Cors, OtherPagesAndNoPageGetNoPermission) {
  TestServer server(with_origins({kPage}));
  TestClient client(server.port());
  for (const char* from :
       {"https://evil.example", "https://app.example", "http://app.example:8443",
        "https://app.example:84430", "https://app.example:8443.evil.example", "null", "*", ""}) {
    SCOPED_TRACE(from);
    client.request("OPTIONS", "/echo", {}, preflight(from));
    const TestResponse asked = client.response();
    EXPECT_EQ(asked.status, 204);
    EXPECT_EQ(asked.header("Access-Control-Allow-Origin"), "");
    EXPECT_EQ(asked.header("Access-Control-Allow-Methods"), "");
    client.request("GET", "/hello", {}, origin(from));
    const TestResponse response = client.response();
    EXPECT_EQ(response.body, "hello");  // it is the browser that keeps it from the page
    EXPECT_EQ(response.header("Access-Control-Allow-Origin"), "");
    EXPECT_EQ(response.header("Vary"), "Origin");
  }
  client.request("GET", "/hello");
  EXPECT_EQ(client.response().header("Vary"), "Origin");  // for a cache, this one too
  client.request("GET", "/hello", {}, origin(kPage) + origin("https://evil.example"));
  EXPECT_EQ(client.response().header("Access-Control-Allow-Origin"), "");
}

TEST(Cors, AStarAllowsAnyPageAndVariesByNothing) {
  TestServer server(with_origins({"*"}));
  TestClient client(server.port());
  client.request("GET", "/hello", {}, origin("null"));
  const TestResponse response = client.response();
  EXPECT_EQ(response.header("Access-Control-Allow-Origin"), "*");
  EXPECT_EQ(response.header("Vary"), "");
  client.request("OPTIONS", "/hello", {}, preflight("https://anywhere.example"));
  EXPECT_EQ(client.response().header("Access-Control-Allow-Headers"), "authorization,content-type");
  client.request("GET", "/hello");
  EXPECT_EQ(client.response().header("Access-Control-Allow-Origin"), "");
}

TEST(Cors, WithoutOriginsThereAreNoFieldsAndOptionsAreTheRouters) {
  TestServer server;
  TestClient client(server.port());
  client.request("OPTIONS", "/hello", {}, preflight(kPage));
  const TestResponse response = client.response();
  EXPECT_EQ(response.status, 204);
  EXPECT_EQ(response.header("Allow"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(response.header("Access-Control-Allow-Origin"), "");
  EXPECT_EQ(response.header("Vary"), "");
}

TEST(Cors, AnOptionsRequestThatIsNoPreflightIsTheRouters) {
  TestServer server(with_origins({kPage}));
  TestClient client(server.port());
  client.request("OPTIONS", "/hello", {}, origin(kPage));
  const TestResponse response = client.response();
  EXPECT_EQ(response.header("Allow"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(response.header("Access-Control-Allow-Origin"), kPage);
}

TEST(Cors, OddNamesAreNotEchoed) {
  TestServer server(with_origins({"*"}));
  TestClient client(server.port());
  client.request("OPTIONS", "/hello", {},
                 "Origin: x\r\nAccess-Control-Request-Method: GET\r\n"
                 "Access-Control-Request-Headers: a(b)<script>\r\n");
  EXPECT_EQ(client.response().header("Access-Control-Allow-Headers"), "");
}

TEST(Cors, OriginsThatNoPageHasAreRefusedAtTheStart) {
  for (const char* good : {"*", "null", "http://localhost:3000", "https://a.example",
                           "chrome-extension://abc", "http://[::1]:80"}) {
    EXPECT_TRUE(Cors::make({good})) << good;
  }
  for (const char* wrong :
       {"", "a.example", "https://", "://a", "https://a/", "https://a/b", "https://*.a",
        "https://a b", "https://a, https://b", "https://u@a", "https://a\r\nX: y"}) {
    const auto made = Cors::make({kPage, wrong});
    ASSERT_FALSE(made) << wrong;
    EXPECT_NE(made.error().message.find(wrong), std::string::npos);
  }
  EXPECT_FALSE(Server::start(with_origins({"a.example"}), Router{}));
}

}  // namespace
}  // namespace pacer::http
