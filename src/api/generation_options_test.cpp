#include "api/generation_options.h"

#include <gtest/gtest.h>

#include "api/field_rules.h"

namespace pacer::api {
namespace {

struct Read {
  GenerationOptions options;
  std::optional<Error> error;
};

Read read(std::string_view body, AnswerKind kind = AnswerKind::kChat) {
  const Json object = Json::parse(body);
  Fields fields(object);
  RandomSource random(7);
  Read out;
  out.options = read_generation_options(fields, kind, random, /*vocabulary_size=*/300);
  if (!fields.ok()) out.error = fields.error();
  return out;
}

TEST(GenerationOptions, HaveTheDocumentedDefaults) {
  const Read got = read("{}");
  ASSERT_FALSE(got.error);
  EXPECT_EQ(got.options.sampling.temperature, 1.0f);
  EXPECT_EQ(got.options.sampling.top_p, 1.0f);
  EXPECT_EQ(got.options.sampling.top_k, 0u);
  EXPECT_EQ(got.options.sampling.min_p, 0.0f);
  EXPECT_EQ(got.options.sampling.logprobs, std::nullopt);
  EXPECT_TRUE(got.options.sampling.logit_bias.empty());
  EXPECT_FALSE(got.options.sampling.penalises());
  EXPECT_EQ(got.options.sampling.min_tokens, 0u);
  EXPECT_TRUE(got.options.stop_token_ids.empty());
  EXPECT_FALSE(got.options.echo);
  EXPECT_EQ(got.options.max_tokens, std::nullopt);
  EXPECT_EQ(got.options.n, 1u);
  EXPECT_FALSE(got.options.stream || got.options.ignore_eos || got.options.return_token_ids);
}

TEST(GenerationOptions, ReadEveryField) {
  const Read got = read(R"({"temperature":0.5,"top_p":0.25,"top_k":40,"min_p":0.125,"seed":-3,
      "max_tokens":9,"n":4,"best_of":4,"stop":["a","b"],"ignore_eos":true,"stream":true,
      "stream_options":{"include_usage":true,"continuous_usage_stats":true},
      "return_token_ids":true,"logprobs":true,"top_logprobs":3,"presence_penalty":-1.5,
      "frequency_penalty":0.5,"repetition_penalty":1.25,"logit_bias":{"299":-100,"0":1.5,"7":0},
      "min_tokens":9,"stop_token_ids":[3,0]})");
  ASSERT_FALSE(got.error) << got.error->message;
  EXPECT_EQ(got.options.sampling.temperature, 0.5f);
  EXPECT_EQ(got.options.sampling.top_p, 0.25f);
  EXPECT_EQ(got.options.sampling.top_k, 40u);
  EXPECT_EQ(got.options.sampling.min_p, 0.125f);
  EXPECT_EQ(got.options.sampling.seed, static_cast<uint64_t>(-3));
  EXPECT_EQ(got.options.sampling.logprobs, 3u);
  EXPECT_EQ(got.options.sampling.presence_penalty, -1.5f);
  EXPECT_EQ(got.options.sampling.frequency_penalty, 0.5f);
  EXPECT_EQ(got.options.sampling.repetition_penalty, 1.25f);
  ASSERT_EQ(got.options.sampling.logit_bias.size(), 2u) << "a bias of 0 is none";
  EXPECT_EQ(got.options.sampling.logit_bias[0].id, 299u);
  EXPECT_EQ(got.options.sampling.logit_bias[0].bias, -100.0f);
  EXPECT_EQ(got.options.sampling.logit_bias[1].bias, 1.5f);
  EXPECT_EQ(got.options.sampling.min_tokens, 9u);
  EXPECT_EQ(got.options.stop_token_ids, (std::vector<TokenId>{3, 0}));
  EXPECT_EQ(got.options.max_tokens, 9u);
  EXPECT_EQ(got.options.n, 4u);
  EXPECT_EQ(got.options.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(got.options.ignore_eos && got.options.stream && got.options.include_usage &&
              got.options.continuous_usage_stats && got.options.return_token_ids);
}

struct Limit {
  const char* accepted;  // the last right value
  const char* refused;   // the first wrong one
  const char* param;
};
class OptionLimit : public testing::TestWithParam<Limit> {};

TEST_P(OptionLimit, IsExactAndNamed) {
  const Read right = read(GetParam().accepted);
  EXPECT_FALSE(right.error) << GetParam().accepted << ": " << right.error->message;
  const Read wrong = read(GetParam().refused);
  ASSERT_TRUE(wrong.error) << GetParam().refused;
  EXPECT_TRUE(wrong.error->param.starts_with(GetParam().param)) << wrong.error->param;
  EXPECT_NE(wrong.error->message.find(GetParam().param), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    All, OptionLimit,
    testing::Values(
        Limit{R"({"temperature":2})", R"({"temperature":2.01})", "temperature"},
        Limit{R"({"temperature":0})", R"({"temperature":-0.01})", "temperature"},
        Limit{R"({"temperature":1})", R"({"temperature":"1"})", "temperature"},
        Limit{R"({"temperature":1})", R"({"temperature":1e308})", "temperature"},
        Limit{R"({"top_p":1})", R"({"top_p":1.01})", "top_p"},
        Limit{R"({"top_p":1e-300})", R"({"top_p":0})", "top_p"},
        Limit{R"({"top_k":-1})", R"({"top_k":-2})", "top_k"},
        Limit{R"({"top_k":2147483647})", R"({"top_k":2147483648})", "top_k"},
        Limit{R"({"top_k":16.0})", R"({"top_k":16.5})", "top_k"},
        Limit{R"({"min_p":1})", R"({"min_p":1.1})", "min_p"},
        Limit{R"({"seed":9223372036854775807})", R"({"seed":9223372036854775808})", "seed"},
        Limit{R"({"seed":-9223372036854775808})", R"({"seed":0.5})", "seed"},
        Limit{R"({"max_tokens":1})", R"({"max_tokens":0})", "max_tokens"},
        Limit{R"({"max_tokens":2147483647})", R"({"max_tokens":2147483648})", "max_tokens"},
        Limit{R"({"max_tokens":1e3})", R"({"max_tokens":1e300})", "max_tokens"},
        Limit{R"({"max_completion_tokens":1})", R"({"max_completion_tokens":-1})",
              "max_completion_tokens"},
        Limit{R"({"n":16})", R"({"n":17})", "n"}, Limit{R"({"n":1})", R"({"n":0})", "n"},
        Limit{R"({"n":1})", R"({"n":1000000000})", "n"},
        Limit{R"({"n":2,"best_of":2})", R"({"n":2,"best_of":3})", "best_of"},
        Limit{R"({"logprobs":true,"top_logprobs":20})", R"({"logprobs":true,"top_logprobs":21})",
              "top_logprobs"},
        Limit{R"({"logprobs":true})", R"({"logprobs":3})", "logprobs"},
        Limit{R"({"top_logprobs":0})", R"({"top_logprobs":1})", "top_logprobs"},
        Limit{R"({"stop":"x"})", R"({"stop":""})", "stop"},
        Limit{R"({"stop":[]})", R"({"stop":["a",""]})", "stop[1]"},
        Limit{R"({"stop":null})", R"({"stop":[1]})", "stop[0]"},
        Limit{R"({"stop":["a"]})", R"({"stop":{"a":1}})", "stop"},
        Limit{R"({"stream":true,"stream_options":{}})", R"({"stream_options":{}})",
              "stream_options"},
        Limit{R"({"stream":true,"stream_options":{"include_usage":true}})",
              R"({"stream":true,"stream_options":{"include_usage":1}})",
              "stream_options.include_usage"},
        Limit{R"({"presence_penalty":2})", R"({"presence_penalty":2.01})", "presence_penalty"},
        Limit{R"({"presence_penalty":-2})", R"({"presence_penalty":-2.01})", "presence_penalty"},
        Limit{R"({"frequency_penalty":2})", R"({"frequency_penalty":1e308})", "frequency_penalty"},
        Limit{R"({"frequency_penalty":-2})", R"({"frequency_penalty":"1"})", "frequency_penalty"},
        Limit{R"({"repetition_penalty":1e-300})", R"({"repetition_penalty":0})",
              "repetition_penalty"},
        Limit{R"({"repetition_penalty":100})", R"({"repetition_penalty":100.1})",
              "repetition_penalty"},
        Limit{R"({"min_tokens":0})", R"({"min_tokens":-1})", "min_tokens"},
        Limit{R"({"min_tokens":5,"max_tokens":5})", R"({"min_tokens":6,"max_tokens":5})",
              "min_tokens"},
        Limit{R"({"stop_token_ids":[299]})", R"({"stop_token_ids":[0,300]})", "stop_token_ids[1]"},
        Limit{R"({"stop_token_ids":[0]})", R"({"stop_token_ids":[-1]})", "stop_token_ids[0]"},
        Limit{R"({"stop_token_ids":[]})", R"({"stop_token_ids":5})", "stop_token_ids"},
        Limit{R"({"logit_bias":{"299":1}})", R"({"logit_bias":{"300":1}})", "logit_bias"},
        Limit{R"({"logit_bias":{"0":1}})", R"({"logit_bias":{"-1":1}})", "logit_bias"},
        Limit{R"({"logit_bias":{"7":1}})", R"({"logit_bias":{"07":1}})", "logit_bias"},
        Limit{R"({"logit_bias":{}})", R"({"logit_bias":{"AI":-100}})", "logit_bias"},
        Limit{R"({"logit_bias":{}})", R"({"logit_bias":{"":1}})", "logit_bias"},
        Limit{R"({"logit_bias":{}})", R"({"logit_bias":{" 7":1}})", "logit_bias"},
        Limit{R"({"logit_bias":null})", R"({"logit_bias":{"99999999999999999999":1}})",
              "logit_bias"},
        Limit{R"({"logit_bias":{"7":100}})", R"({"logit_bias":{"7":100.01}})", "logit_bias.7"},
        Limit{R"({"logit_bias":{"7":-100}})", R"({"logit_bias":{"7":-1e308}})", "logit_bias.7"},
        Limit{R"({"logit_bias":{"7":0}})", R"({"logit_bias":{"7":null}})", "logit_bias.7"},
        Limit{R"({"logit_bias":{}})", R"({"logit_bias":[[7,1]]})", "logit_bias"},
        Limit{R"({"ignore_eos":false})", R"({"ignore_eos":0})", "ignore_eos"}));

TEST(GenerationOptions, StopStringsAreBoundedInNumberAndLength) {
  const auto stops = [](size_t count, size_t bytes) {
    return Json{{"stop", Json(std::vector<std::string>(count, std::string(bytes, 'x')))}}.dump();
  };
  EXPECT_FALSE(read(stops(16, 256)).error);
  EXPECT_EQ(read(stops(17, 1)).error->param, "stop");
  EXPECT_EQ(read(stops(500, 1)).error->message,
            "'stop' has 500 strings, but at most 16 are allowed");
  EXPECT_EQ(read(stops(1, 257)).error->param, "stop[0]");
}

TEST(GenerationOptions, StopTokensAndBiasesAreBoundedInNumber) {
  const auto ids = [](size_t count) {
    return Json{{"stop_token_ids", Json(std::vector<int>(count, 5))}}.dump();
  };
  EXPECT_FALSE(read(ids(64)).error);
  EXPECT_EQ(read(ids(65)).error->message,
            "'stop_token_ids' has 65 ids, but at most 64 are allowed");
  const auto biases = [](int count) {
    Json bias = Json::object();
    for (int i = 0; i < count; ++i) bias[std::to_string(i)] = 1;
    return Json{{"logit_bias", bias}};
  };
  const auto read_of_5000 = [](const Json& body) {
    Fields fields(body);
    RandomSource random(1);
    (void)read_generation_options(fields, AnswerKind::kChat, random, 5000);
    return fields.ok() ? "" : fields.error().message;
  };
  EXPECT_EQ(read_of_5000(biases(1024)), "");
  EXPECT_EQ(read_of_5000(biases(1025)),
            "'logit_bias' has 1025 entries, but at most 1024 are allowed");
}

TEST(GenerationOptions, AnAlmostZeroRepetitionPenaltyKeepsLogitsFinite) {
  EXPECT_GT(read(R"({"repetition_penalty":1e-300})").options.sampling.repetition_penalty, 1e-7f);
}

TEST(GenerationOptions, OnlyCompletionsThatEchoMayAskForNoTokens) {
  const char* none = R"({"echo":true,"max_tokens":0})";
  const Read got = read(none, AnswerKind::kCompletion);
  ASSERT_FALSE(got.error);
  EXPECT_TRUE(got.options.echo);
  EXPECT_EQ(got.options.max_tokens, 0u);
  EXPECT_EQ(read(R"({"max_tokens":0})", AnswerKind::kCompletion).error->param, "max_tokens");
  EXPECT_EQ(read(none, AnswerKind::kChat).error->param, "max_tokens");
  EXPECT_EQ(
      read(R"({"echo":true,"max_tokens":0,"min_tokens":1})", AnswerKind::kCompletion).error->param,
      "min_tokens");
}

TEST(GenerationOptions, CompletionsAskForLogprobsByNumber) {
  EXPECT_EQ(read(R"({"logprobs":0})", AnswerKind::kCompletion).options.sampling.logprobs, 0u);
  EXPECT_EQ(read(R"({"logprobs":20})", AnswerKind::kCompletion).options.sampling.logprobs, 20u);
  EXPECT_EQ(read(R"({"logprobs":21})", AnswerKind::kCompletion).error->param, "logprobs");
  EXPECT_EQ(read(R"({"logprobs":true})", AnswerKind::kCompletion).error->param, "logprobs");
}

TEST(GenerationOptions, AnAlmostZeroTemperatureIsGreedyAndAnAlmostZeroTopPKeepsAToken) {
  EXPECT_EQ(read(R"({"temperature":1e-4})").options.sampling.temperature, 0.0f);
  EXPECT_GT(read(R"({"temperature":1e-3})").options.sampling.temperature, 0.0f);
  EXPECT_GT(read(R"({"top_p":1e-300})").options.sampling.top_p, 0.0f);
}

TEST(GenerationOptions, TheNewerNameOfMaxTokensWins) {
  EXPECT_EQ(read(R"({"max_tokens":5,"max_completion_tokens":6})").options.max_tokens, 6u);
}

TEST(GenerationOptions, WithoutASeedEachRequestDrawsItsOwn) {
  const Json object = Json::object();
  RandomSource random(1);
  Fields fields(object);
  const auto first = read_generation_options(fields, AnswerKind::kChat, random);
  const auto second = read_generation_options(fields, AnswerKind::kChat, random);
  EXPECT_NE(first.sampling.seed, second.sampling.seed);
}

}  // namespace
}  // namespace pacer::api
