// The property that holds for every request: a stream, put together, says exactly what the whole
// answer says - in text, log-probabilities, token ids, finish reasons and usage.
#include <gtest/gtest.h>

#include "api/test_server.h"

namespace pacer::api {
namespace {

// A request with options drawn from the seed, for either endpoint.
Json draw_request(Rng& rng, bool chat) {
  Json body = chat ? chat_of("tell me é世🙂 " + std::to_string(rng.below(100)))
                   : completion_of("once é世🙂 " + std::to_string(rng.below(100)));
  body["temperature"] = rng.below(3) == 0 ? 0.0 : 0.7;
  body["seed"] = static_cast<int64_t>(rng.below(1000));
  body["max_tokens"] = 1 + rng.below(60);
  body["n"] = 1 + rng.below(3);
  if (rng.below(2)) body["ignore_eos"] = true;
  if (rng.below(2)) body["return_token_ids"] = true;
  if (rng.below(2)) {
    const std::vector<std::string> stops = {"é", "🙂世", "ab", "a b", "世", "\n\"", "\\\\"};
    for (uint64_t i = rng.below(4); i > 0; --i) body["stop"].push_back(stops[rng.below(7)]);
  }
  if (rng.below(2)) {
    if (chat) {
      body["logprobs"] = true;
      body["top_logprobs"] = rng.below(4);
    } else {
      body["logprobs"] = rng.below(4);
    }
  }
  if (!chat && rng.below(3) == 0) {
    body["prompt"] = Json::array({"one", "two 世", {195, 169, 240, 159}, "three<|im_end|>"});
  }
  if (!chat && rng.below(2)) {
    body["echo"] = true;
    if (rng.below(4) == 0) body["max_tokens"] = 0;
  }
  if (rng.below(3) == 0) {
    for (const int id : {0x61, 0x62, 0x96, 0x82}) {
      if (rng.below(3) == 0) body["stop_token_ids"].push_back(id);
    }
  }
  if (rng.below(3) == 0) body["min_tokens"] = rng.below(body["max_tokens"].get<uint64_t>() + 1);
  if (rng.below(3) == 0) body["presence_penalty"] = 1.5;
  if (rng.below(3) == 0) body["logit_bias"] = {{"97", -100}};
  return body;
}

Json lists_only(const Json& logprobs) {
  Json lists;
  append_lists(lists, logprobs);
  return lists;
}

void expect_equal(const Json& whole, const StreamedAnswer& streamed) {
  ASSERT_EQ(whole["choices"].size(), streamed.choices.size());
  for (const Json& choice : whole["choices"]) {
    const StreamedChoice& other = streamed.choices.at(choice["index"]);
    const Json& text = choice.contains("message") ? choice["message"]["content"] : choice["text"];
    EXPECT_EQ(text, other.text);
    EXPECT_EQ(choice["finish_reason"], other.finish_reason);
    EXPECT_EQ(lists_only(choice["logprobs"]), other.logprobs);
    EXPECT_EQ(choice.value("token_ids", Json::array()), other.token_ids);
    if (choice.contains("token_ids")) {
      const Json& ids_from = choice.contains("message") ? whole : choice;
      // A chat has them once, beside the choices: in the first chunk of each.
      EXPECT_EQ(ids_from["prompt_token_ids"], other.prompt_ids);
    }
  }
  EXPECT_EQ(whole["usage"], streamed.usage);
  EXPECT_TRUE(streamed.done);
}

// What must be true of one answer by itself.
void expect_consistent(const Json& whole, bool echo) {
  uint64_t tokens = 0;
  bool all_counted = true;
  for (const Json& choice : whole["choices"]) {
    if (!choice.contains("token_ids")) {
      all_counted = false;
      continue;
    }
    tokens += choice["token_ids"].size();
    const Json& logprobs = choice["logprobs"];
    if (logprobs.is_null()) continue;
    for (const auto& [name, list] : logprobs.items()) {
      if (list.is_array()) {
        const size_t before = echo ? choice["prompt_token_ids"].size() : 0;
        EXPECT_EQ(list.size(), before + choice["token_ids"].size())
            << name << ": one entry per token";
      }
    }
  }
  if (all_counted) {
    EXPECT_EQ(whole["usage"]["completion_tokens"], tokens);
  }
}

class StreamProperty : public testing::TestWithParam<int> {};

TEST_P(StreamProperty, AStreamSaysWhatTheWholeAnswerSays) {
  TestServer server;
  Rng rng(static_cast<uint64_t>(GetParam()));
  for (int i = 0; i < 25; ++i) {
    const bool chat = rng.below(2) == 0;
    Json body = draw_request(rng, chat);
    SCOPED_TRACE("seed " + std::to_string(GetParam()) + ", request " + body.dump());
    const char* path = chat ? "/v1/chat/completions" : "/v1/completions";
    const http::TestResponse response = server.post(path, body);
    ASSERT_EQ(response.status, 200) << response.body;
    const Json whole = Json::parse(response.body);
    body["stream"] = true;
    body["stream_options"] = {{"include_usage", true}};
    if (rng.below(2)) body["stream_options"]["continuous_usage_stats"] = true;
    const http::TestResponse stream = server.post(path, body);
    ASSERT_EQ(stream.status, 200) << stream.body;
    ASSERT_TRUE(stream.complete);
    expect_equal(whole, put_together(stream.body));
    expect_consistent(whole, body.value("echo", false));
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, StreamProperty, testing::Range(1, 9));

// A long prompt is run in several steps, and said with each what was run.
TEST(StreamProperty, AnEchoWithLogprobsComesAsThePromptIsRun) {
  TestServer server;
  std::string prompt;
  for (int i = 0; i < 60; ++i) prompt += "é世🙂";  // 9 tokens of one byte each
  prompt.resize(9 * 50 + 1);                           // and half a character
  Json ids = Json::array();
  for (const char c : prompt) ids.push_back(static_cast<unsigned char>(c));
  for (const bool as_text : {true, false}) {
    Json body = completion_of(prompt.substr(0, 450), {{"max_tokens", 3}, {"n", 2}});
    if (!as_text) body["prompt"] = ids;
    body["echo"] = true;
    body["logprobs"] = 2;
    body["return_token_ids"] = true;
    const Json whole = Json::parse(server.post("/v1/completions", body).body);
    expect_consistent(whole, true);
    const Json& offsets = whole["choices"][1]["logprobs"]["text_offset"];
    EXPECT_EQ(offsets[9 * 50 - 1], 3 * 50 - 1) << "the last byte of the last whole character";
    EXPECT_EQ(offsets[9 * 50], 3 * 50);
    body["stream"] = true;
    body["stream_options"] = {{"include_usage", true}};
    const StreamedAnswer streamed = put_together(server.post("/v1/completions", body).body);
    expect_equal(whole, streamed);
    EXPECT_GE(streamed.chunks, 2 * 4u) << "128 tokens of the prompt in a step";
  }
}

// T13: max_tokens that cuts inside a character, in both modes.
TEST(StreamProperty, ACutInsideACharacterIsTheSameInBothModes) {
  TestServer server;
  const std::string text = "a🙂世é";
  for (int max_tokens = 1; max_tokens <= 12; ++max_tokens) {
    SCOPED_TRACE(max_tokens);
    Json body = completion_of(text, {{"max_tokens", max_tokens}, {"return_token_ids", true}});
    const http::TestResponse response = server.post("/v1/completions", body);
    const Json whole = Json::parse(response.body);  // throws if it is not UTF-8
    body["stream"] = true;
    const StreamedAnswer streamed = put_together(server.post("/v1/completions", body).body);
    const std::string said = whole["choices"][0]["text"];
    EXPECT_EQ(streamed.choices.at(0).text, said);
    // Whole characters, then at most one mark for the one that was cut.
    const std::string cut = "\xef\xbf\xbd";
    const std::string clean = said.ends_with(cut) ? said.substr(0, said.size() - cut.size()) : said;
    EXPECT_EQ(clean.find(cut), std::string::npos) << said;
    EXPECT_TRUE(text.starts_with(clean)) << said;
  }
}

// T11: beside a request without logprobs, one entry per token, each token's own.
TEST(StreamProperty, LogprobsBelongToTheirTokensInAMixedBatch) {
  TestServer server;
  http::TestClient plain(server.port());
  plain.request("POST", "/v1/chat/completions",
                chat_of("abcabcabcabc", {{"ignore_eos", true}, {"max_tokens", 200}}).dump());
  const Json body = chat_of("xyz", {{"logprobs", true}, {"top_logprobs", 3}});
  const Json whole = Json::parse(server.post("/v1/chat/completions", body).body);
  const Json& entries = whole["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(entries.size(), 4u) << "x, y, z and the end";
  std::string said;
  for (const Json& entry : entries) {
    EXPECT_EQ(entry["top_logprobs"].size(), 3u);
    EXPECT_EQ(entry["top_logprobs"][0]["token"], entry["token"]);
    EXPECT_EQ(entry["top_logprobs"][0]["logprob"], entry["logprob"]);
    EXPECT_EQ(entry["bytes"].size(), entry["token"].get<std::string>().size());
    said += entry["token"];
  }
  EXPECT_EQ(said, "xyz<|im_end|>");
  EXPECT_NE(entries[0]["logprob"], entries[1]["logprob"]);
  const Json other = Json::parse(plain.response().body);
  EXPECT_TRUE(other["choices"][0]["logprobs"].is_null());
}

}  // namespace
}  // namespace pacer::api
