// Every field of OpenAI's two schemas (chat completions, completions), as its Python library 3.57
// lists them: done, accepted because it asks for nothing, or refused by name. Nothing is ignored
// silently.
#include <gtest/gtest.h>

#include "api/test_server.h"

namespace pacer::api {
namespace {

struct Field {
  const char* name;
  const char* accepted;  // JSON; null is accepted too
  const char* refused;   // JSON; "": any value is accepted, as it changes no answer
};

const Field kChatFields[] = {
    {"model", R"("test/model")", R"("gpt-4")"},
    {"audio", "null", R"({"voice": "alloy", "format": "wav"})"},
    {"frequency_penalty", "0.5", "2.5"},
    {"function_call", R"("none")", R"({"name": "f"})"},
    {"functions", "[]", R"([{"name": "f"}])"},
    {"logit_bias", R"({"97": -100})", R"({"x": 1})"},
    {"logprobs", "true", "1"},
    {"max_completion_tokens", "5", "0"},
    {"max_tokens", "5", "0"},
    {"metadata", R"({"a": "b"})", ""},
    {"modalities", R"(["text"])", R"(["text", "audio"])"},
    {"moderation", "null", R"({"model": "omni-moderation-latest"})"},
    {"n", "2", "0"},
    {"parallel_tool_calls", "false", ""},
    {"prediction", "null", R"({"type": "content", "content": "x"})"},
    {"presence_penalty", "-0.5", "-2.5"},
    {"prompt_cache_key", R"("k")", ""},
    {"prompt_cache_options", R"({"mode": "implicit"})", ""},
    {"prompt_cache_retention", R"("24h")", ""},
    {"reasoning_effort", R"("none")", R"("low")"},
    {"response_format", R"({"type": "text"})", R"({"type": "json_object"})"},
    {"safety_identifier", R"("s")", ""},
    {"seed", "5", "0.5"},
    {"service_tier", R"("auto")", ""},
    {"stop", R"(["\n"])", "5"},
    {"store", "false", "true"},
    {"stream", "true", "1"},
    {"stream_options", "null", R"({"include_usage": true})"},  // without a stream
    {"temperature", "0.5", "2.5"},
    {"tool_choice", R"("auto")", R"("required")"},
    {"tools", "[]", R"([{"type": "function", "function": {"name": "f"}}])"},  // not in the template
    {"top_logprobs", "0", "2"},                                               // without logprobs
    {"top_p", "0.5", "1.5"},
    {"user", R"("u")", ""},
    {"verbosity", R"("medium")", R"("low")"},
    {"web_search_options", "null", "{}"},
};

const Field kCompletionFields[] = {
    {"model", R"("test/model")", R"("davinci-002")"},
    {"best_of", "1", "2"},
    {"echo", "true", "1"},
    {"frequency_penalty", "0.5", "2.5"},
    {"logit_bias", R"({"97": -100})", R"({"x": 1})"},
    {"logprobs", "5", "true"},
    {"max_tokens", "5", "0"},
    {"n", "2", "0"},
    {"presence_penalty", "0.5", "-2.5"},
    {"seed", "5", "0.5"},
    {"stop", R"("x")", "[5]"},
    {"stream", "true", "1"},
    {"stream_options", "null", R"({"include_usage": true})"},
    {"suffix", R"("")", R"("end")"},
    {"temperature", "0.5", "-1"},
    {"top_p", "0.5", "0"},
    {"user", R"("u")", ""},
};

void expect_rules(TestServer& server, const char* path, const Json& body,
                  std::span<const Field> fields) {
  for (const Field& field : fields) {
    SCOPED_TRACE(field.name);
    for (const char* value : {"null", field.accepted}) {
      Json request = body;
      request[field.name] = Json::parse(value);
      const http::TestResponse response = server.post(path, request);
      EXPECT_EQ(response.status, 200) << value << ": " << response.body;
    }
    if (*field.refused == '\0') continue;
    Json request = body;
    request[field.name] = Json::parse(field.refused);
    const http::TestResponse response = server.post(path, request);
    EXPECT_TRUE(response.status == 400 || response.status == 404) << field.refused;
    const Json error = Json::parse(response.body)["error"];
    ASSERT_TRUE(error["param"].is_string()) << response.body;
    EXPECT_TRUE(error["param"].get<std::string>().starts_with(field.name)) << response.body;
    EXPECT_NE(error["message"].get<std::string>().find(field.name), std::string::npos) << error;
  }
  EXPECT_EQ(server.context.field_warnings.count(), 0u) << "all of them are known by name";
}

TEST(OpenAiFields, OfChatCompletionsAreEachDoneHarmlessOrRefusedByName) {
  TestServer server;
  expect_rules(server, "/v1/chat/completions", chat_of("x"), kChatFields);
}

TEST(OpenAiFields, OfCompletionsAreEachDoneHarmlessOrRefusedByName) {
  TestServer server;
  expect_rules(server, "/v1/completions", completion_of("x"), kCompletionFields);
}

TEST(OpenAiFields, AnUnknownOneIsAcceptedAndWarnedOf) {
  TestServer server;
  EXPECT_EQ(server.post("/v1/completions", completion_of("x", {{"frobnicate", 1}})).status, 200);
  EXPECT_EQ(server.context.field_warnings.count(), 1u);
}

}  // namespace
}  // namespace pacer::api
