// The API under failure, load and rude clients: what needs threads and timing, over real sockets.
#include <gtest/gtest.h>

#include <atomic>

#include "api/test_server.h"
#include "http/test_client.h"

namespace pacer::api {
namespace {

using http::eventually;
using http::TestClient;
using http::TestResponse;

constexpr const char* kChat = "/v1/chat/completions";
constexpr const char* kCompletions = "/v1/completions";

Json long_run(bool stream) {
  return completion_of("la", {{"stream", stream}, {"max_tokens", 400}, {"ignore_eos", true}});
}

// --- T01, T03: a client that leaves ---

TEST(ClientLeaves, InTheMiddleOfAStreamAndItsWorkEnds) {
  TestServer server;
  server.executor.pause();
  server.executor.allow(8);
  TestClient client(server.port());
  client.request("POST", kCompletions, long_run(true).dump());
  ASSERT_EQ(client.response_head().status, 200);
  for (int events = 0; events < 5;) {
    const auto chunk = client.chunk();  // may hold several events
    ASSERT_TRUE(chunk);
    for (size_t at = 0; (at = chunk->find("data: ", at)) != std::string::npos; ++at) ++events;
  }
  client.close();
  // The running step needs a permit, the next one drains the cancellation: two more at most.
  ASSERT_TRUE(eventually([&] {
    server.executor.allow(1);
    return server.metric("pacer_requests_cancelled_total") == 1;
  }));
  server.executor.resume();
  EXPECT_TRUE(eventually([&] { return server.metric("vllm:num_requests_running") == 0; }));
  EXPECT_TRUE(eventually([&] { return server.engine.in_flight() == 0; }));
  EXPECT_LT(server.metric("vllm:generation_tokens_total"), 400);
  EXPECT_EQ(server.metric("vllm:kv_cache_usage_perc"), 0);
}

TEST(ClientLeaves, WhileAWholeAnswerIsMadeAndItsWorkEnds) {
  TestServer server;
  server.executor.pause();
  TestClient client(server.port());
  client.request("POST", kCompletions, long_run(false).dump());
  ASSERT_TRUE(eventually([&] { return server.engine.in_flight() == 1; }));
  server.executor.allow(3);
  ASSERT_TRUE(eventually([&] { return server.executor.steps() >= 3; }));
  client.reset();
  ASSERT_TRUE(eventually([&] {
    server.executor.allow(1);
    return server.metric("pacer_requests_cancelled_total") == 1;
  }));
  EXPECT_TRUE(eventually([&] { return server.engine.in_flight() == 0; }));
}

TEST(ClientLeaves, WithSeveralChoicesAndAllOfThemEnd) {
  TestServer server;
  server.executor.pause();
  TestClient client(server.port());
  Json body = long_run(true);
  body["n"] = 4;
  client.request("POST", kCompletions, body.dump());
  ASSERT_TRUE(eventually([&] { return server.engine.in_flight() == 4; }));
  client.close();
  ASSERT_TRUE(eventually([&] {
    server.executor.allow(1);
    return server.metric("pacer_requests_cancelled_total") == 4;
  }));
  EXPECT_TRUE(eventually([&] { return server.engine.in_flight() == 0; }));
}

TEST(ClientLeaves, WhileItWaitsAndIsNeverScheduled) {
  TestServer server({.running_max = 1});
  server.executor.pause();
  TestClient first(server.port());
  first.request("POST", kCompletions, completion_of("ab").dump());
  ASSERT_TRUE(eventually([&] { return server.engine.in_flight() == 1; }));
  {
    std::vector<std::unique_ptr<TestClient>> waiting;
    for (int i = 0; i < 3; ++i) {
      waiting.push_back(std::make_unique<TestClient>(server.port()));
      Json body = completion_of("never run", {{"stream", i % 2 == 0}});
      waiting.back()->request("POST", kCompletions, body.dump());
    }
    ASSERT_TRUE(eventually([&] { return server.engine.in_flight() == 4; }));
    // The step in progress and one more, at whose end the engine has counted them as waiting.
    server.executor.allow(2);
    ASSERT_TRUE(eventually([&] { return server.metric("vllm:num_requests_waiting") == 3; }));
  }
  // They are gone; the first may go on only when the server has noticed all three.
  ASSERT_TRUE(eventually([&] { return server.server->connection_count() == 1; }));
  server.executor.resume();
  const Json answer = Json::parse(first.response().body);
  EXPECT_EQ(answer["choices"][0]["text"], "ab");
  EXPECT_TRUE(eventually([&] { return server.metric("pacer_requests_cancelled_total") == 3; }));
  EXPECT_EQ(server.metric("vllm:prompt_tokens_total"), 2) << "only the first prompt ran";
  EXPECT_EQ(server.metric("vllm:num_requests_waiting"), 0);
}

// --- T07: a failure after some tokens ---

TEST(StepFails, AfterAStreamBeganAndTheStreamSaysSo) {
  TestServer server;
  server.executor.fail_at(3);
  const TestResponse response = server.post(kChat, chat_of("abcdef", {{"stream", true}}));
  EXPECT_EQ(response.status, 200);
  EXPECT_TRUE(response.complete);
  const StreamedAnswer answer = put_together(response.body);
  EXPECT_EQ(answer.choices.at(0).text, "abc");
  EXPECT_EQ(answer.choices.at(0).finish_reason, "");
  EXPECT_EQ(answer.error["code"], "internal_error");
  EXPECT_TRUE(answer.done) << "[DONE] comes after the error";
  EXPECT_EQ(response.body.find("secret"), std::string::npos);
}

TEST(StepFails, BeforeTheFirstTokenAndTheStatusSaysSo) {
  TestServer server;
  server.executor.fail_at(0);
  for (const bool stream : {false, true}) {
    const TestResponse response = server.post(kChat, chat_of("abc", {{"stream", stream}}));
    EXPECT_EQ(response.status, 500);
    EXPECT_EQ(Json::parse(response.body)["error"]["type"], "server_error");
  }
}

TEST(StepFails, AfterSomeTokensAndAWholeAnswerIsNeverPartial) {
  TestServer server;
  server.executor.fail_at(3);
  const TestResponse response = server.post(kCompletions, completion_of("abcdef"));
  EXPECT_EQ(response.status, 500);
  EXPECT_EQ(response.body.find("abc"), std::string::npos);
}

TEST(StepFails, ForOneOfSeveralChoicesAndThereIsOneErrorAndNobodyElseRunsOn) {
  // Two slots: choices 2 and 3 still wait when 0 and 1 fail.
  TestServer server({.running_max = 2});
  server.executor.fail_at(2);
  const Json body = completion_of("abcdef", {{"n", 4}, {"stream", true}});
  const StreamedAnswer answer = put_together(server.post(kCompletions, body).body);
  EXPECT_FALSE(answer.error.is_null());
  EXPECT_TRUE(answer.done);
  EXPECT_TRUE(eventually([&] { return server.engine.in_flight() == 0; }));
}

TEST(Shutdown, RefusesNewWorkAndEndsOldWorkWithItsReason) {
  TestServer server;
  server.executor.pause();
  server.executor.allow(3);
  TestClient stream(server.port());
  stream.request("POST", kCompletions, long_run(true).dump());
  ASSERT_EQ(stream.response_head().status, 200);
  TestClient whole(server.port());
  whole.request("POST", kCompletions, long_run(false).dump());
  ASSERT_TRUE(eventually([&] { return server.engine.in_flight() == 2; }));

  server.context.draining.store(true);
  server.engine.stop_admitting();
  const TestResponse refused = server.post(kChat, chat_of("x"));
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.header("Retry-After"), "1");
  EXPECT_EQ(server.get("/ready").status, 503);
  EXPECT_EQ(server.get("/health").status, 200);

  // Let the step in progress end, then stop driving and give up on the rest, as cli/ does.
  std::atomic<bool> stopped{false};
  std::thread stopper([&] {
    server.stop_driver();
    stopped.store(true);
  });
  EXPECT_TRUE(eventually([&] {
    server.executor.allow(1);
    return stopped.load();
  }));
  stopper.join();
  server.engine.fail_all(error(Code::kUnavailable, "the server shut down"));

  std::string body;
  while (const auto chunk = stream.chunk()) {
    if (chunk->empty()) break;
    body += *chunk;
  }
  const StreamedAnswer streamed = put_together(body);
  EXPECT_EQ(streamed.error["code"], "service_unavailable");
  EXPECT_TRUE(streamed.done);
  EXPECT_EQ(whole.response().status, 503);
}

// --- T28: more than the queue holds ---

TEST(QueueFull, EveryClientGetsAnAnswerAndExactlyTheCapacityIsServed) {
  TestServer server({.running_max = 2, .max_queue = 8});
  server.executor.pause();
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 60; ++i) {
    clients.push_back(std::make_unique<TestClient>(server.port()));
    const Json body = completion_of("ab", {{"stream", i % 2 == 0}});
    ASSERT_TRUE(clients.back()->request("POST", kCompletions, body.dump()));
  }
  // Nothing moves, and still everybody who is refused hears it.
  ASSERT_TRUE(eventually([&] { return server.metric("pacer_requests_rejected_total") == 50; }));
  server.executor.resume();
  int served = 0, refused = 0;
  for (const auto& client : clients) {
    const TestResponse response = client->response();
    EXPECT_TRUE(response.complete);
    if (response.status == 200) {
      ++served;
      continue;
    }
    ++refused;
    EXPECT_EQ(response.status, 429);
    EXPECT_EQ(response.header("Retry-After"), "1");
    EXPECT_EQ(Json::parse(response.body)["error"]["code"], "rate_limit_exceeded");
  }
  EXPECT_EQ(served, 10);
  EXPECT_EQ(refused, 50);
}

TEST(QueueFull, ARequestWithManyChoicesThatOnlyPartlyFitsTakesNoPlace) {
  TestServer server({.running_max = 1, .max_queue = 4});
  server.executor.pause();
  TestClient running(server.port());
  running.request("POST", kCompletions, completion_of("ab").dump());
  ASSERT_TRUE(eventually([&] { return server.engine.in_flight() == 1; }));
  EXPECT_EQ(server.post(kCompletions, completion_of("cd", {{"n", 5}})).status, 429);
  server.executor.resume();
  EXPECT_EQ(running.response().status, 200);
  EXPECT_TRUE(eventually([&] { return server.engine.in_flight() == 0; }));
}

TEST(QueueFull, MoreChoicesThanTheServerEverHoldsIsNotWorthRetrying) {
  TestServer server({.running_max = 1, .max_queue = 4});
  EXPECT_EQ(server.post(kCompletions, completion_of("cd", {{"n", 6}})).status, 400);
  EXPECT_EQ(server.post(kCompletions, completion_of("cd", {{"n", 5}})).status, 200);
}

// --- streams in time ---

TEST(Stream, ThatWaitsLongBeginsWithAPingAndThenSaysTheSame) {
  TestServer server({.ping_every = std::chrono::milliseconds(30)});
  server.executor.pause();
  TestClient client(server.port());
  client.request("POST", kChat, chat_of("hello", {{"stream", true}}).dump());
  EXPECT_EQ(client.response_head().status, 200);
  ASSERT_TRUE(client.read_until(": ping\n\n"));
  ASSERT_TRUE(client.read_until(": ping\n\n")) << "and again, while nothing else comes";
  server.executor.resume();
  std::string body;
  while (const auto chunk = client.chunk()) {
    if (chunk->empty()) break;
    body += *chunk;
  }
  const StreamedAnswer answer = put_together(body);
  EXPECT_EQ(answer.choices.at(0).text, "hello");
  EXPECT_TRUE(answer.done);
}

TEST(Stream, SaysTheRoleFirstThenTextThenTheReason) {
  TestServer server;
  const TestResponse response = server.post(kChat, chat_of("ab", {{"stream", true}}));
  EXPECT_EQ(response.header("Content-Type"), "text/event-stream; charset=utf-8");
  EXPECT_EQ(response.header("Cache-Control"), "no-cache");
  const std::vector<std::string> events = sse_data(response.body);
  ASSERT_EQ(events.size(), 5u) << response.body;
  const auto choice = [&](size_t i) { return Json::parse(events[i])["choices"][0]; };
  EXPECT_EQ(choice(0)["delta"], Json::parse(R"({"role":"assistant","content":""})"));
  EXPECT_EQ(choice(1)["delta"], Json::parse(R"({"content":"a"})"));
  EXPECT_TRUE(choice(1)["finish_reason"].is_null());
  EXPECT_EQ(choice(3)["delta"], Json::object());
  EXPECT_EQ(choice(3)["finish_reason"], "stop");
  EXPECT_EQ(events[4], "[DONE]");
}

TEST(Stream, OfTokensWithoutTextSendsNothingUntilThereIsText) {
  TestServer server;
  const Json body = completion_of("🙂", {{"stream", true}, {"return_token_ids", true}});
  const StreamedAnswer answer = put_together(server.post(kCompletions, body).body);
  EXPECT_EQ(answer.chunks, 2u) << "one with the character, one with the reason";
  EXPECT_EQ(answer.choices.at(0).text, "🙂");
  EXPECT_EQ(answer.choices.at(0).token_ids.size(), 5u) << "four bytes and the end";
}

// --- T09: stop strings ---

TEST(StopString, EndsTheAnswerBeforeItInBothModes) {
  TestServer server;
  struct Case {
    const char* stop;
    const char* said;
    const char* reason;
  };
  for (const Case& c :
       {Case{"beta gamma", "alpha ", "stop"}, Case{"alpha", "", "stop"},
        Case{"delta", "alpha beta gamma ", "stop"}, Case{"betas", "alpha beta gamma delta", "stop"},
        Case{"é", "alpha beta gamma delta", "stop"}}) {
    for (const bool stream : {false, true}) {
      SCOPED_TRACE(std::string(c.stop) + (stream ? ", streamed" : ""));
      const Json body = completion_of("alpha beta gamma delta",
                                      {{"stop", {c.stop}}, {"stream", stream}, {"max_tokens", 99}});
      const TestResponse response = server.post(kCompletions, body);
      std::string said, reason;
      if (stream) {
        const StreamedAnswer answer = put_together(response.body);
        said = answer.choices.at(0).text;
        reason = answer.choices.at(0).finish_reason;
      } else {
        const Json choice = Json::parse(response.body)["choices"][0];
        said = choice["text"];
        reason = choice["finish_reason"];
      }
      EXPECT_EQ(said, c.said);
      EXPECT_EQ(reason, c.reason);
    }
  }
}

// --- T19: extremes in a request must not disturb another ---

TEST(Extremes, AreEachA400AndAParallelStreamGoesOn) {
  TestServer server;
  server.executor.pause();
  TestClient stream(server.port());
  stream.request("POST", kCompletions,
                 completion_of("steady", {{"stream", true}, {"max_tokens", 6}}).dump());
  ASSERT_TRUE(eventually([&] { return server.engine.in_flight() == 1; }));

  Json many_biases = Json::object();
  for (int i = 0; i < 5000; ++i) many_biases[std::to_string(i)] = 1;
  std::vector<std::string> bodies;
  for (const char* field :
       {R"("logit_bias":{"999999":5})", R"("logit_bias":{"-1":5})", R"("logit_bias":{"AI":-100})",
        R"("logit_bias":{"1":1e308})", R"("logit_bias":{"1":NaN})", R"("temperature":1e400)",
        R"("n":1000000000)", R"("top_logprobs":1000000)", R"("logprobs":1000000)",
        R"("max_tokens":99999999999999999999)", R"("seed":1e30)"}) {
    bodies.push_back(std::string(R"({"prompt":"x",)") + field + "}");
  }
  bodies.push_back(completion_of("x", {{"logit_bias", many_biases}}).dump());
  bodies.push_back(completion_of("x", {{"stop_token_ids", std::vector<int>(2000, 5)}}).dump());
  bodies.push_back(completion_of("x", {{"stop", std::vector<std::string>(500, "s")}}).dump());
  for (const std::string& body : bodies) {
    const bool chat_only = body.find("top_logprobs") != std::string::npos;
    const TestResponse response =
        chat_only ? server.post_text(kChat, R"({"messages":[{"role":"user","content":"x"}],)"
                                            R"("logprobs":true,"top_logprobs":1000000})")
                  : server.post_text(kCompletions, body);
    EXPECT_EQ(response.status, 400) << body.substr(0, 100) << "\n" << response.body;
    EXPECT_FALSE(Json::parse(response.body)["error"]["param"].is_null()) << response.body;
  }
  server.executor.resume();
  const TestResponse answer = stream.response();
  EXPECT_EQ(put_together(answer.body).choices.at(0).text, "steady");
}

// --- T25: fits the length, not the pool ---

TEST(SmallPool, ARequestThatCanNeverFitIsRefusedAtOnceAndOthersGoOn) {
  TestServer server({.max_model_len = 512, .blocks = 4});  // 64 tokens
  const TestResponse refused =
      server.post(kCompletions, completion_of("abc", {{"max_tokens", 100}}));
  EXPECT_EQ(refused.status, 400);
  const Json error = Json::parse(refused.body)["error"];
  EXPECT_EQ(error["code"], "context_length_exceeded");
  EXPECT_NE(error["message"].get<std::string>().find("64"), std::string::npos) << error;
  EXPECT_EQ(server.post(kCompletions, completion_of("abc", {{"max_tokens", 61}})).status, 200);
  EXPECT_EQ(server.post(kCompletions, completion_of("abc", {{"max_tokens", 62}})).status, 400);
}

TEST(SmallPool, AChatWithoutMaxTokensGetsWhatThePoolHolds) {
  TestServer server({.max_model_len = 512, .blocks = 8});  // 128 tokens
  const Json answer = Json::parse(server.post(kChat, chat_of("a", {{"ignore_eos", true}})).body);
  EXPECT_EQ(answer["usage"]["total_tokens"], 128);
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
}

// --- /ready ---

TEST(Ready, IsFalseWhileWorkIsStuckAndTrueAgainAfterwards) {
  TestServer server;
  EXPECT_EQ(server.get("/ready").status, 200);
  server.executor.pause();
  TestClient client(server.port());
  client.request("POST", kCompletions, completion_of("abc").dump());
  ASSERT_TRUE(eventually([&] { return server.engine.in_flight() == 1; }));
  server.clock.advance(server.context.stalled_after + std::chrono::seconds(1));
  const TestResponse stuck = server.get("/ready");
  EXPECT_EQ(stuck.status, 503);
  EXPECT_EQ(Json::parse(stuck.body)["status"], "stalled");
  EXPECT_GT(Json::parse(stuck.body)["last_step_age_s"], 10);
  EXPECT_EQ(server.get("/health").status, 200);
  server.executor.resume();
  EXPECT_EQ(client.response().status, 200);
  EXPECT_EQ(server.get("/ready").status, 200);
}

TEST(Ready, IsTrueForTheFirstRequestAfterALongIdleTime) {
  TestServer server;
  server.executor.pause();
  server.clock.advance(std::chrono::hours(10));  // a night: the last step is old, the work is not
  TestClient client(server.port());
  client.request("POST", kCompletions, completion_of("abc").dump());
  ASSERT_TRUE(eventually([&] { return server.engine.in_flight() == 1; }));
  EXPECT_EQ(server.get("/ready").status, 200);
  server.executor.resume();
  EXPECT_EQ(client.response().status, 200);
}

// --- many at once ---

TEST(ManyClients, EachGetsItsOwnAnswer) {
  TestServer server({.running_max = 4});
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([&, i] {
      const std::string text = "number " + std::to_string(i);
      const Json body = chat_of(text, {{"stream", true}, {"n", 1 + i % 3}});
      const StreamedAnswer answer = put_together(server.post(kChat, body).body);
      bool all = answer.done && answer.choices.size() == static_cast<size_t>(1 + i % 3);
      for (const auto& [index, choice] : answer.choices) all = all && choice.text == text;
      right += all;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right.load(), 16);
}

}  // namespace
}  // namespace pacer::api
