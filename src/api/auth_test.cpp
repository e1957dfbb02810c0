// Who gets in with which key, and that nothing is open by accident.
#include "api/auth.h"

#include <gtest/gtest.h>

#include <set>

#include "api/test_server.h"

namespace pacer::api {
namespace {

const std::vector<std::string> kKeys = {"first-key", "second-key", "third~key!"};

ApiKeys keys() {
  return *ApiKeys::from(kKeys);
}

http::Headers with(const std::string& value) {
  return {{"Authorization", value}};
}

TEST(ApiKeys, AKeyIsKnownByItsPosition) {
  EXPECT_EQ(keys().position(with("Bearer first-key")), 1u);
  EXPECT_EQ(keys().position(with("Bearer second-key")), 2u);
  EXPECT_EQ(keys().position(with("Bearer third~key!")), 3u);
}

TEST(ApiKeys, TheSchemeHasNoCaseAndTheKeyHas) {
  EXPECT_EQ(keys().position(with("bearer first-key")), 1u);
  EXPECT_EQ(keys().position(with("BEARER   first-key ")), 1u);
  EXPECT_EQ(keys().position(with("Bearer First-key")), std::nullopt);
}

TEST(ApiKeys, WhatIsNotExactlyAKeyIsNone) {
  for (const char* value :
       {"", "Bearer", "Bearer ", "Bearer    ", "first-key", "Basic first-key", "Bearerfirst-key",
        "Bearer first-ke", "Bearer first-key2", "Bearer first-key second-key", "Bearer\tfirst-key",
        "Bearer \"first-key\"", "Bearer,first-key"}) {
    EXPECT_EQ(keys().position(with(value)), std::nullopt) << value;
  }
  EXPECT_EQ(keys().position({}), std::nullopt);
  EXPECT_EQ(keys().position({{"X-Api-Key", "first-key"}}), std::nullopt);
}

TEST(ApiKeys, TwoAuthorizationFieldsAreNone) {
  http::Headers headers = with("Bearer first-key");
  headers.add("authorization", "Bearer first-key");
  EXPECT_EQ(keys().position(headers), std::nullopt);
}

TEST(ApiKeys, WithoutKeysThereIsNoGate) {
  EXPECT_TRUE(ApiKeys().empty());
  EXPECT_EQ(ApiKeys().gate(), nullptr);
  EXPECT_TRUE(ApiKeys::from({})->empty());
  EXPECT_EQ(ApiKeys::from({})->gate(), nullptr);
}

TEST(ApiKeys, AKeyThatNoHeaderCouldCarryIsRefusedAndNotShown) {
  for (const std::string bad : {"", "two words", "tab\tkey", "schl\xc3\xbcssel", "new\nline"}) {
    const std::vector<std::string> list = {"good", bad};
    const auto made = ApiKeys::from(list);
    ASSERT_FALSE(made) << bad;
    EXPECT_TRUE(made.error().message.starts_with("API key 2 is ")) << made.error().message;
    if (bad.empty()) continue;
    EXPECT_EQ(made.error().message.find(bad), std::string::npos);
  }
  EXPECT_TRUE(ApiKeys::from(std::vector<std::string>{std::string(512, 'k')}));
  EXPECT_FALSE(ApiKeys::from(std::vector<std::string>{std::string(513, 'k')}));
  const auto twins = ApiKeys::from(std::vector<std::string>{"a", "b", "a"});
  ASSERT_FALSE(twins);
  EXPECT_EQ(twins.error().message, "API keys 1 and 3 are the same");
}

class Doors : public testing::Test {
 protected:
  http::TestResponse ask(const std::string& method, const std::string& path,
                         const std::string& fields = "") {
    http::TestClient client(server_.port());
    client.send(method + " " + path + " HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n" + fields +
                "\r\n");
    return client.response(method == "HEAD");
  }

  TestServer server_{{.api_keys = kKeys}};
};

// A route that is new is closed, or has to be written down here.
TEST_F(Doors, NothingIsOpenButWhatIsMeantToBe) {
  const std::set<std::string> open = {"/health", "/ready", "/version", "/metrics"};
  for (const RouteInfo& route : all_routes()) {
    const std::string path = route.path.substr(0, route.path.find('{')) +
                             (route.path.ends_with('}') ? "test/model" : "");
    for (const std::string& method :
         {route.method, std::string(route.method == "GET" ? "HEAD" : route.method)}) {
      SCOPED_TRACE(method + " " + path);
      const int status = ask(method, path).status;
      EXPECT_EQ(open.contains(path), status != 401) << status;
      EXPECT_EQ(open.contains(path), route.open);
      EXPECT_NE(ask(method, path, "Authorization: Bearer second-key\r\n").status, 401);
      if (!route.open) {
        EXPECT_EQ(ask(method, path, "Authorization: Bearer wrong\r\n").status, 401);
      }
    }
  }
}

TEST_F(Doors, WhoHasNoKeyLearnsNothingOfThePaths) {
  for (const auto& [method, path] :
       std::vector<std::pair<std::string, std::string>>{{"GET", "/nowhere"},
                                                        {"GET", "/"},
                                                        {"POST", "/v1/models"},
                                                        {"GET", "/v1/completions"},
                                                        {"DELETE", "/v1/completions"},
                                                        {"POST", "/health"},
                                                        {"OPTIONS", "/v1/models"},
                                                        {"GET", "/v1/models/"},
                                                        {"GET", "//v1/models"},
                                                        {"GET", "/v1/%6dodels"},
                                                        {"GET", "/health/"},
                                                        {"GET", "/health%2f..%2fv1/models"}}) {
    SCOPED_TRACE(method + " " + path);
    EXPECT_EQ(ask(method, path).status, 401);
    EXPECT_NE(ask(method, path, "Authorization: Bearer first-key\r\n").status, 401);
  }
  EXPECT_EQ(ask("GET", "/nowhere", "Authorization: Bearer first-key\r\n").status, 404);
  EXPECT_EQ(ask("GET", "/v1/completions", "Authorization: Bearer first-key\r\n").status, 405);
}

TEST_F(Doors, A401IsAsClientsOfOpenAiKnowIt) {
  for (const char* fields : {"", "Authorization: Bearer sk-secret\r\n"}) {
    const http::TestResponse answer = ask("POST", "/v1/chat/completions", fields);
    EXPECT_EQ(answer.status, 401);
    EXPECT_EQ(answer.header("WWW-Authenticate"), "Bearer");
    const Json error = Json::parse(answer.body)["error"];
    EXPECT_EQ(error["code"], "invalid_api_key");
    EXPECT_EQ(error["type"], "invalid_request_error");
    EXPECT_TRUE(error["param"].is_null());
    EXPECT_EQ(answer.body.find("secret"), std::string::npos);
  }
}

TEST_F(Doors, A401ComesBeforeTheBody) {
  http::TestClient client(server_.port());
  client.send(
      "POST /v1/completions HTTP/1.1\r\nHost: test\r\nContent-Length: 1000000\r\n\r\n{\"prompt");
  EXPECT_EQ(client.response().status, 401);
}

TEST_F(Doors, AnAdminDoorHasNoKeysAndRunsNothing) {
  http::ServerOptions options;
  options.port = 0;
  auto admin =
      http::Server::start(options, make_router(server_.context, Door::kAdmin), format_http_error);
  ASSERT_TRUE(admin);
  http::TestClient client((*admin)->port());
  for (const char* path : {"/health", "/ready", "/metrics", "/version"}) {
    client.request("GET", path);
    EXPECT_EQ(client.response().status, 200) << path;
  }
  for (const char* path : {"/v1/models", "/nowhere"}) {
    client.request("GET", path);
    EXPECT_EQ(client.response().status, 404) << path;
  }
}

TEST_F(Doors, BesideAnAdminDoorThePublicOneHasNoMetrics) {
  server_.server->set_router(make_router(server_.context, Door::kPublicWithoutMetrics));
  EXPECT_EQ(ask("GET", "/metrics").status, 401);
  EXPECT_EQ(ask("GET", "/metrics", "Authorization: Bearer first-key\r\n").status, 404);
  EXPECT_EQ(ask("GET", "/health").status, 200);
}

TEST_F(Doors, WhileTheModelIsLoadedTheServerIsAliveAndNotReady) {
  server_.server->set_router(make_loading_router(keys()));
  EXPECT_EQ(ask("GET", "/health").status, 200);
  EXPECT_EQ(ask("GET", "/version").status, 200);
  const http::TestResponse ready = ask("GET", "/ready");
  EXPECT_EQ(ready.status, 503);
  EXPECT_EQ(Json::parse(ready.body), Json::parse(R"({"status":"loading"})"));
  EXPECT_EQ(ask("POST", "/v1/completions").status, 401);
  for (const auto& [method, path] :
       {std::pair("POST", "/v1/completions"), std::pair("GET", "/v1/models"),
        std::pair("GET", "/metrics")}) {
    const http::TestResponse answer = ask(method, path, "Authorization: Bearer first-key\r\n");
    EXPECT_EQ(answer.status, 503) << path;
    EXPECT_EQ(answer.header("Retry-After"), "1");
    EXPECT_EQ(Json::parse(answer.body)["error"]["code"], "service_unavailable");
  }
  server_.server->set_router(make_router(server_.context));
  EXPECT_EQ(ask("GET", "/ready").status, 200);
}

}  // namespace
}  // namespace pacer::api
