// Situations that broke other servers, with their whole kind: those rows of docs/cases.md that
// nothing else holds already. Over real sockets, with an executor that follows a script.
#include <gtest/gtest.h>

#include <set>

#include "api/test_server.h"
#include "http/test_client.h"

namespace pacer::api {
namespace {

using http::eventually;
using http::TestClient;
using http::TestResponse;

constexpr const char* kChat = "/v1/chat/completions";
constexpr const char* kCompletions = "/v1/completions";

Json endless(bool stream) {
  return completion_of("la", {{"stream", stream}, {"max_tokens", 400}, {"ignore_eos", true}});
}

// --- T01, T05: clients that leave ---

TEST(ClientLeaves, DuringItsPrefillAndNoTokenIsEverMade) {
  for (const bool stream : {false, true}) {
    TestServer server;
    server.executor.pause();
    TestClient client(server.port());
    // Two steps of 256 tokens for the prompt alone; the client leaves while the first one runs.
    const Json body =
        completion_of(std::string(400, 'p'), {{"max_tokens", 50}, {"stream", stream}});
    client.request("POST", kCompletions, body.dump());
    ASSERT_TRUE(eventually([&] { return server.engine.in_flight() == 1; }));
    client.close();
    ASSERT_TRUE(eventually([&] { return server.server->connection_count() == 0; }));
    server.executor.resume();
    ASSERT_TRUE(eventually([&] { return server.engine.in_flight() == 0; }));
    EXPECT_TRUE(eventually([&] { return server.metric("pacer_requests_cancelled_total") == 1; }));
    EXPECT_LE(server.executor.steps(), 2);
    EXPECT_EQ(server.metric("vllm:generation_tokens_total"), 0);
    EXPECT_EQ(server.metric("vllm:kv_cache_usage_perc"), 0);
  }
}

TEST(ClientLeaves, WhileItsAnswerIsFinishedAndNobodyElseNotices) {
  TestServer server;
  for (int i = 0; i < 20; ++i) {
    TestClient client(server.port());
    client.request("POST", kCompletions, completion_of("ab", {{"stream", i % 2 == 0}}).dump());
    // Unread, at a different moment of its short life each time.
    if (i % 3 == 0) {
      ASSERT_TRUE(eventually([&] { return server.engine.in_flight() == 0; }));
    }
    i % 4 < 2 ? client.close() : client.reset();
  }
  ASSERT_TRUE(eventually([&] { return server.engine.in_flight() == 0; }));
  ASSERT_TRUE(eventually([&] { return server.server->connection_count() == 0; }));
  const auto ended = [&] {
    return server.metric("vllm:request_success_total") +
           server.metric("pacer_requests_rejected_total");
  };
  EXPECT_LE(ended(), 20) << "no request ends twice";
  EXPECT_EQ(server.metric("pacer_requests_failed_total"), 0);
  const Json answer = Json::parse(server.post(kCompletions, completion_of("ab")).body);
  EXPECT_EQ(answer["choices"][0]["text"], "ab");
}

TEST(ClientLeaves, SixteenAtOnceAndTheGaugesAreTrueWithoutFurtherTraffic) {
  TestServer server({.running_max = 16});
  const Json turn = chat_of("the same beginning, and then something", {{"max_tokens", 80}});
  const std::string before = server.post(kChat, turn).body;
  {
    std::vector<std::unique_ptr<TestClient>> clients;
    server.executor.pause();
    for (int i = 0; i < 16; ++i) {
      clients.push_back(std::make_unique<TestClient>(server.port()));
      Json body = turn;
      body["stream"] = true;
      body["ignore_eos"] = true;
      clients.back()->request("POST", kChat, body.dump());
    }
    ASSERT_TRUE(eventually([&] { return server.engine.in_flight() == 16; }));
    server.executor.allow(5);
    ASSERT_TRUE(eventually([&] { return server.metric("vllm:num_requests_running") == 16; }));
    EXPECT_GT(server.metric("vllm:kv_cache_usage_perc"), 0);
  }
  ASSERT_TRUE(eventually([&] { return server.server->connection_count() == 0; }));
  server.executor.resume();
  // Nothing is asked of the server from here on, but for what a scrape asks.
  EXPECT_TRUE(eventually([&] { return server.metric("vllm:num_requests_running") == 0; }));
  EXPECT_TRUE(eventually([&] { return server.metric("vllm:kv_cache_usage_perc") == 0; }));
  EXPECT_EQ(server.metric("vllm:num_requests_waiting"), 0);
  EXPECT_EQ(server.metric("pacer_requests_cancelled_total"), 16);
  const Json after = Json::parse(server.post(kChat, turn).body);
  EXPECT_EQ(after["choices"], Json::parse(before)["choices"]);
  EXPECT_EQ(after["usage"]["prompt_tokens"], Json::parse(before)["usage"]["prompt_tokens"]);
}

// --- T09: every stop string that the text can have ---

TEST(StopString, OfEveryPartOfATextThatRepeatsItself) {
  TestServer server;
  const std::string text = "aabaabaaab \U0001F642!";
  std::set<std::string> stops;
  for (size_t begin = 0; begin < 10; ++begin) {
    for (size_t size = 1; begin + size <= 10; ++size) stops.insert(text.substr(begin, size));
  }
  stops.insert({"b \U0001F642", "\U0001F642", "\U0001F642!", "!?", "\U0001F643"});
  for (const std::string& stop : stops) {
    const std::string expected = text.substr(0, text.find(stop));  // all of it, if it never comes
    for (const bool stream : {false, true}) {
      SCOPED_TRACE("stop '" + stop + (stream ? "', streamed" : "'"));
      const TestResponse response = server.post(
          kCompletions,
          completion_of(
              text, {{"stop", Json::array({"zz", stop})}, {"stream", stream}, {"max_tokens", 99}}));
      ASSERT_EQ(response.status, 200) << response.body;
      if (stream) {
        EXPECT_EQ(put_together(response.body).choices.at(0).text, expected);
      } else {
        EXPECT_EQ(Json::parse(response.body)["choices"][0]["text"], expected);
      }
    }
  }
}

// --- T15: text that is none, wherever a request has text ---

TEST(IllFormedText, IsA400NamingItsFieldWhereverItStandsAndTheServerGoesOn) {
  TestServer server;
  struct Case {
    const char* path;
    const char* body;  // ? is where the text goes
    const char* param;
  };
  const std::vector<Case> cases = {
      {kChat, R"({"messages":[{"role":"user","content":?}]})", "messages[0].content"},
      {kChat, R"({"stream":true,"messages":[{"role":"user","content":?}]})", "messages[0].content"},
      {kChat, R"({"messages":[{"role":"user","content":[{"type":"text","text":?}]}]})",
       "messages[0].content[0].text"},
      {kChat, R"({"messages":[{"role":"user","content":"x","name":?}]})", "messages[0].name"},
      {kChat, R"({"messages":[{"role":?,"content":"x"}]})", "messages[0].role"},
      {kChat,
       R"({"tools":[{"type":"function","function":{"name":"f","description":?}}],"messages":[]})",
       "tools[0].function.description"},
      {kCompletions, R"({"prompt":?})", "prompt"},
      {kCompletions, R"({"prompt":["x",?],"stream":true})", "prompt[1]"},
      {kCompletions, R"({"prompt":"x","stop":["y",?]})", "stop[1]"},
      {kCompletions, R"({"prompt":"x","user":?})", "user"},
      {"/tokenize", R"({"prompt":?})", "prompt"}};
  const std::vector<std::string> texts = {
      R"("a\ud800b")", R"("\udc00")",  R"("\ud83d\ud83d\ude42")", "\"\xff\"",
      "\"\xc3\"",      "\"\xc0\xaf\"", "\"\xed\xa0\x80\"",        "\"\xf4\x90\x80\x80\""};
  for (const Case& c : cases) {
    for (const std::string& text : texts) {
      std::string body = c.body;
      body.replace(body.find('?'), 1, text);
      const TestResponse response = server.post_text(c.path, body);
      EXPECT_EQ(response.status, 400) << body;
      const Json error = Json::parse(response.body)["error"];
      EXPECT_EQ(error["type"], "invalid_request_error") << body;
      EXPECT_EQ(error["param"], c.param) << body;
    }
  }
  EXPECT_EQ(
      Json::parse(server.post(kChat, chat_of("probe")).body)["choices"][0]["message"]["content"],
      "probe");
}

TEST(IllFormedText, ANulIsACharacterWholeAndStreamed) {
  TestServer server;
  const std::string text("a\0b", 3);
  for (const bool stream : {false, true}) {
    const TestResponse response = server.post(kChat, chat_of(text, {{"stream", stream}}));
    ASSERT_EQ(response.status, 200);
    if (stream) {
      EXPECT_EQ(put_together(response.body).choices.at(0).text, text);
    } else {
      EXPECT_EQ(Json::parse(response.body)["choices"][0]["message"]["content"], text);
    }
  }
}

// --- T28: many more than there is room for ---

TEST(QueueFull, OfTwoHundredAtOnceEachHearsOnceAndTheReasonIsCounted) {
  TestServer server({.running_max = 1, .max_queue = 8});
  server.executor.pause();
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 200; ++i) {
    clients.push_back(std::make_unique<TestClient>(server.port()));
    const Json body = i % 2 == 0 ? chat_of("ab", {{"stream", i % 4 == 0}}) : completion_of("ab");
    ASSERT_TRUE(clients.back()->request("POST", i % 2 == 0 ? kChat : kCompletions, body.dump()));
  }
  ASSERT_TRUE(eventually([&] { return server.metric("pacer_requests_rejected_total") == 191; }));
  server.executor.resume();
  int served = 0;
  for (const auto& client : clients) {
    const TestResponse response = client->response();
    ASSERT_TRUE(response.complete);
    served += response.status == 200;
    if (response.status != 200) {
      EXPECT_EQ(response.status, 429);
      EXPECT_NE(response.header("Retry-After"), "");
    }
  }
  EXPECT_EQ(served, 9) << "one that runs and eight that wait";
  EXPECT_NE(server.get("/metrics").body.find(R"(reason="queue_full")"), std::string::npos);
}

// --- T35: what operators ask is answered, whatever the engine and other clients do ---

TEST(Busy, OperatorsAreAnsweredWhileAStepNeverEndsAndClientsAreMany) {
  TestServer server({.running_max = 16, .max_queue = 400});
  server.executor.pause();  // a prefill that never ends
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 200; ++i) {
    clients.push_back(std::make_unique<TestClient>(server.port()));
    ASSERT_TRUE(clients.back()->request("POST", kCompletions, endless(i % 2 == 0).dump()));
  }
  for (int i = 0; i < 50; ++i) {  // who says a request so slowly that it never comes to an end
    clients.push_back(std::make_unique<TestClient>(server.port()));
    ASSERT_TRUE(clients.back()->send(
        i % 2 == 0 ? "GET /health HT" : "POST /v1/completions HTTP/1.1\r\nContent-Length: 99\r\n"));
  }
  ASSERT_TRUE(eventually([&] { return server.engine.in_flight() == 200; }));
  for (int round = 0; round < 20; ++round) {
    for (const char* path : {"/health", "/ready", "/metrics", "/v1/models", "/version"}) {
      EXPECT_EQ(server.get(path).status, 200) << path;
    }
    EXPECT_EQ(server.post("/tokenize", {{"prompt", "abc"}}).status, 200);
  }
  EXPECT_EQ(server.executor.steps(), 0) << "the engine has not moved meanwhile";
}

}  // namespace
}  // namespace pacer::api
