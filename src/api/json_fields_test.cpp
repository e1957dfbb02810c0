#include "api/json_fields.h"

#include <gtest/gtest.h>

#include "api/field_rules.h"
#include "base/log.h"

namespace pacer::api {
namespace {

TEST(Fields, NullAndAbsentGiveTheFallback) {
  const Json object = {{"b", nullptr}, {"n", nullptr}};
  Fields fields(object);
  EXPECT_TRUE(fields.boolean("b", true));
  EXPECT_EQ(fields.number("n", 0.5, {0, 1}), 0.5);
  EXPECT_EQ(fields.integer("i", {0, 1}), std::nullopt);
  EXPECT_EQ(fields.string("s", 10), std::nullopt);
  EXPECT_TRUE(fields.ok());
}

TEST(Fields, ANumberIsTakenUpToItsBoundsAndNotBeyond) {
  const Json object = {{"lo", 0}, {"hi", 2}, {"below", -1e-9}, {"above", 2.0000001}, {"x", 0.0}};
  Fields fields(object);
  EXPECT_EQ(fields.number("lo", 9, {0, 2}), 0);
  EXPECT_EQ(fields.number("hi", 9, {0, 2}), 2);
  ASSERT_TRUE(fields.ok());
  for (const char* name : {"below", "above"}) {
    Fields one(object);
    one.number(name, 9, {0, 2});
    EXPECT_FALSE(one.ok()) << name;
  }
  Fields open(object);
  open.number("x", 9, {0, 1, /*min_excluded=*/true});
  ASSERT_FALSE(open.ok());
  EXPECT_EQ(open.error().message, "'x' must be a number in (0, 1], not 0.0");
}

TEST(Fields, ErrorsCarryNameLimitAndValue) {
  const Json object = {{"temperature", "hot"}, {"n", true}, {"stream", 1}, {"o", Json::array()}};
  Fields number(object);
  number.number("temperature", 1, {0, 2});
  EXPECT_EQ(number.error().message, "'temperature' must be a number in [0, 2], not \"hot\"");
  EXPECT_EQ(number.error().param, "temperature");
  Fields integer(object);
  integer.integer("n", {1, 16});
  EXPECT_EQ(integer.error().message, "'n' must be an integer in [1, 16], not true");
  Fields boolean(object);
  boolean.boolean("stream", false);
  EXPECT_EQ(boolean.error().message, "'stream' must be true or false, not 1");
  Fields nested(object, "outer");
  nested.object("o");
  EXPECT_EQ(nested.error().message, "'outer.o' must be an object, not an empty array");
  EXPECT_EQ(nested.error().param, "outer.o");
}

TEST(Fields, TheFirstErrorSticks) {
  const Json object = {{"a", "x"}, {"b", "y"}};
  Fields fields(object);
  fields.boolean("a", false);
  fields.boolean("b", false);
  EXPECT_EQ(fields.error().param, "a");
}

TEST(Fields, WholeNumbersMayBeWrittenAsFloats) {
  EXPECT_EQ(as_integer(Json::parse("16.0")), 16);
  EXPECT_EQ(as_integer(Json::parse("1e3")), 1000);
  EXPECT_EQ(as_integer(Json::parse("-0.0")), 0);
  EXPECT_EQ(as_integer(Json::parse("9007199254740992.0")), 9007199254740992);
  EXPECT_EQ(as_integer(Json::parse("9007199254740994.0")), std::nullopt);  // which one was meant?
  EXPECT_EQ(as_integer(Json::parse("16.5")), std::nullopt);
  EXPECT_EQ(as_integer(Json::parse("\"16\"")), std::nullopt);
  EXPECT_EQ(as_integer(Json::parse("true")), std::nullopt);
  EXPECT_EQ(as_integer(Json::parse("9223372036854775807")), INT64_MAX);
  EXPECT_EQ(as_integer(Json::parse("-9223372036854775808")), INT64_MIN);
  EXPECT_EQ(as_integer(Json::parse("9223372036854775808")), std::nullopt);
  EXPECT_EQ(as_integer(Json::parse("1e308")), std::nullopt);
}

TEST(Fields, ALongValueIsShortenedInTheError) {
  const Json object = {{"n", std::string(10000, 'x')}};
  Fields fields(object);
  fields.integer("n", {1, 16});
  EXPECT_LT(fields.error().message.size(), 120u);
}

TEST(Fields, StringsAreBoundedInBytes) {
  const Json object = {{"s", "世"}};
  Fields fits(object);
  EXPECT_EQ(fits.string("s", 3), "世");
  Fields too_long(object);
  too_long.string("s", 2);
  EXPECT_FALSE(too_long.ok());
}

// --- field_rules ---

struct Ruling {
  const char* name;
  const char* accepted;  // a value that changes nothing
  const char* refused;   // one that would
};

class KnownField : public testing::TestWithParam<Ruling> {};

Status check(const std::string& name, const char* value) {
  const Json object = {{name, Json::parse(value)}};
  Fields fields(object);
  FieldWarnings warnings;
  check_other_fields(fields, warnings);
  EXPECT_EQ(warnings.count(), 0u) << name << " is known";
  if (!fields.ok()) return fields.error();
  return Ok{};
}

TEST_P(KnownField, IsRefusedByNameOnlyWhereItWouldChangeTheAnswer) {
  const Ruling& ruling = GetParam();
  EXPECT_TRUE(check(ruling.name, "null"));
  if (ruling.accepted != nullptr) {
    EXPECT_TRUE(check(ruling.name, ruling.accepted));
  }
  if (ruling.refused == nullptr) return;
  const Status refused = check(ruling.name, ruling.refused);
  ASSERT_FALSE(refused) << ruling.name << " " << ruling.refused;
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
  EXPECT_EQ(refused.error().param, ruling.name);
  EXPECT_NE(refused.error().message.find(std::string("'") + ruling.name + "'"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    All, KnownField,
    testing::Values(
        Ruling{"tools", "[]", R"([{"type":"function"}])"},
        Ruling{"tool_choice", R"("auto")", R"("required")"}, Ruling{"functions", "[]", R"([{}])"},
        Ruling{"response_format", R"({"type":"text"})", R"({"type":"json_object"})"},
        Ruling{"response_format", R"({"type":"text"})", R"("text")"},
        Ruling{"length_penalty", "1.0", "1.1"}, Ruling{"length_penalty", "1", "\"1\""},
        Ruling{"thinking_token_budget", "-1", "0"}, Ruling{"stream_interval", "1", "2"},
        Ruling{"mm_processor_kwargs", "{}", R"({"a":1})"}, Ruling{"session_id", R"("s")", nullptr},
        Ruling{"logprob_token_ids", nullptr, "[1]"}, Ruling{"include_reasoning", "true", "false"},
        Ruling{"suffix", R"("")", R"("x")"}, Ruling{"echo", "false", "true"},
        Ruling{"audio", nullptr, "{}"}, Ruling{"modalities", R"(["text"])", R"(["text","audio"])"},
        Ruling{"bad_words", "[]", R"(["a"])"}, Ruling{"moderation", nullptr, "{}"},
        Ruling{"prompt_cache_options", "{}", nullptr}, Ruling{"store", "false", "true"},
        Ruling{"user", R"("me")", nullptr}, Ruling{"metadata", R"({"a":"b"})", nullptr},
        Ruling{"service_tier", R"("flex")", nullptr}, Ruling{"priority", "0", "1"},
        Ruling{"prompt_logprobs", nullptr, "1"}));

TEST(FieldWarnings, AnUnknownNameIsAcceptedAndSaidOnce) {
  const Json object = {{"frobnicate", 1}, {"n\nforged log line", 2}};
  FieldWarnings warnings;
  for (int i = 0; i < 3; ++i) {
    Fields fields(object);
    check_other_fields(fields, warnings);
    EXPECT_TRUE(fields.ok());
  }
  EXPECT_EQ(warnings.count(), 2u);
}

TEST(FieldWarnings, ClientsCannotFillTheMemoryWithNames) {
  spdlog::set_level(spdlog::level::off);
  FieldWarnings warnings;
  for (int i = 0; i < 1000; ++i) warnings.warn("name" + std::to_string(i));
  spdlog::set_level(spdlog::level::info);
  EXPECT_EQ(warnings.count(), 256u);
}

}  // namespace
}  // namespace pacer::api
