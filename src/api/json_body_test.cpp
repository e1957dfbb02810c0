#include "api/json_body.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace pacer::api {
namespace {

Error error_of(std::string_view body) {
  const Result<Json> result = parse_json_object(body);
  EXPECT_FALSE(result) << body;
  return result ? Error{} : result.error();
}

std::string nested(size_t levels) {  // the object is one of them
  return R"({"a":)" + std::string(levels - 1, '[') + std::string(levels - 1, ']') + "}";
}

TEST(JsonBody, ReadsEveryKindOfValue) {
  const auto body = parse_json_object(R"({"a":[1,-2,3.5,true,null,"x",{"b":{}},[]],
                                          "u":18446744073709551615,"s":"\u0000\ud83d\ude42"})");
  ASSERT_TRUE(body) << body.error().message;
  EXPECT_EQ((*body)["a"].dump(), R"([1,-2,3.5,true,null,"x",{"b":{}},[]])");
  EXPECT_EQ((*body)["u"], 18446744073709551615u);
  EXPECT_EQ((*body)["s"], std::string("\0🙂", 5));
}

TEST(JsonBody, TheLastOfTwoEqualKeysCounts) {
  const auto body = parse_json_object(R"({"a":{"x":1},"b":2,"a":3})");
  ASSERT_TRUE(body);
  EXPECT_EQ(body->dump(), R"({"a":3,"b":2})");
}

TEST(JsonBody, TheNumberOfValuesIsBoundedExactly) {
  const auto list_of = [](size_t count) {
    std::string body = R"({"p":[)";
    for (size_t i = 0; i < count; ++i) body += i == 0 ? "1" : ",1";
    return body + "]}";
  };
  EXPECT_TRUE(parse_json_object(list_of(kJsonValuesMax - 2)));  // and the list, and the object
  const Error error = error_of(list_of(kJsonValuesMax - 1));
  EXPECT_NE(error.message.find("more than 1000000 values"), std::string::npos) << error.message;
}

TEST(JsonBody, DepthIsBoundedExactly) {
  EXPECT_TRUE(parse_json_object(nested(kJsonDepthMax)));
  const Error error = error_of(nested(kJsonDepthMax + 1));
  EXPECT_NE(error.message.find("nested deeper than 64 levels"), std::string::npos) << error.message;
}

TEST(JsonBody, AMillionLevelsAreRefusedAsFastAsSixtyFive) {
  EXPECT_FALSE(parse_json_object(std::string(1'000'000, '[')));
  EXPECT_FALSE(parse_json_object(R"({"a":)" + std::string(1'000'000, '[')));
}

TEST(JsonBody, AnythingButAnObjectIsRefusedWithItsKind) {
  EXPECT_NE(error_of("[1]").message.find("array"), std::string::npos);
  EXPECT_NE(error_of("3").message.find("number"), std::string::npos);
  EXPECT_NE(error_of("").message.find("empty"), std::string::npos);
  EXPECT_FALSE(parse_json_object(" "));
  EXPECT_FALSE(parse_json_object("{"));
  EXPECT_FALSE(parse_json_object("{}{}"));
  EXPECT_FALSE(parse_json_object("nonsense"));
}

TEST(JsonBody, AnErrorNamesTheFieldWhereItArose) {
  const Error surrogate =
      error_of(R"({"n":1,"messages":[{"role":"user"},{"role":"user","content":"a\ud800b"}]})");
  EXPECT_EQ(surrogate.param, "messages[1].content");
  EXPECT_NE(surrogate.message.find("messages[1].content"), std::string::npos);
  EXPECT_EQ(error_of(R"({"seed":1e999})").param, "seed");
  EXPECT_EQ(error_of(R"({"temperature":NaN})").param, "temperature");
  EXPECT_EQ(error_of(R"({"a":1,"\ud800":2})").param, "");  // not the field before it
}

TEST(JsonBody, IllFormedUtf8AndSurrogatesAreRefused) {
  for (const std::string& text :
       {std::string("\\ud800"), std::string("\\udc00"), std::string("\\ud800\\ud800"),
        std::string("\\ud83d\\u0041"), std::string("\xff"), std::string("\xc3"),
        std::string("\xed\xa0\x80"), std::string("\xf4\x90\x80\x80"), std::string("\xc0\x80")}) {
    EXPECT_EQ(error_of("{\"prompt\":\"" + text + "\"}").param, "prompt");
  }
}

TEST(JsonBody, AnErrorNeverRepeatsThePrompt) {
  const Error error = error_of("{\"prompt\":\"my secret \xff\"}");
  EXPECT_EQ(error.message.find("secret"), std::string::npos) << error.message;
}

TEST(JsonBody, KeysKeepTheirOrderAndOfTwoEqualOnesTheLastCounts) {
  // Few and many members are looked through in two ways.
  for (const int count : {3, 40}) {
    std::string body = R"({"z": 0, "twice": 1)";
    for (int i = count; i > 0; --i) body += fmt::format(R"(,"k{}": {})", i, i);
    body += R"(, "twice": 2, "a": 3})";
    const Result<Json> parsed = parse_json_object(body);
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    EXPECT_EQ(parsed->size(), static_cast<size_t>(count) + 3);
    EXPECT_EQ((*parsed)["twice"], 2);
    EXPECT_EQ((*parsed)["k1"], 1);
    const std::string text = parsed->dump();
    EXPECT_TRUE(text.starts_with(R"({"z":0,"twice":2,"k)")) << text;
    EXPECT_TRUE(text.ends_with(R"("k1":1,"a":3})")) << text;
  }
}

TEST(JsonBody, MembersOfOneObjectAreBounded) {
  const auto body = [](size_t count) {
    std::string text = R"({"a": {)";
    for (size_t i = 0; i < count; ++i) {
      text.append(i > 0 ? ",\"" : "\"").append(std::to_string(i)).append("\":0");
    }
    return text + "}}";
  };
  EXPECT_TRUE(parse_json_object(body(kJsonMembersMax)).ok());
  const Result<Json> refused = parse_json_object(body(kJsonMembersMax + 1));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message,
            "the body is not a valid JSON request at 'a.16384': an object with more than 16384 "
            "members");
}

TEST(JsonBody, ANulByteIsRefusedWhereverItIs) {
  for (std::string body : {"{}~", "~{}", "{}~{\"garbage", "{\"a\":\"~\"}"}) {
    body[body.find('~')] = '\0';
    const Result<Json> refused = parse_json_object(body);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().message, "the body has a NUL byte, which JSON never has");
  }
}

}  // namespace
}  // namespace pacer::api
