#include "api/json_format.h"

#include <gtest/gtest.h>

#include <limits>

#include "api/json_body.h"

namespace pacer::api {
namespace {

std::string read_back(std::string_view json) {
  const Json value = Json::parse(json, nullptr, false);
  EXPECT_TRUE(value.is_string()) << json;
  return value.is_string() ? value.get<std::string>() : "";
}

TEST(JsonString, EveryAsciiCharacterReadsBackAsItself) {
  std::string all;
  for (int c = 0; c < 128; ++c) all += static_cast<char>(c);
  const std::string json = json_string(all);
  EXPECT_EQ(read_back(json), all);
  for (const char c : json) EXPECT_GE(c, 0x20) << "a raw control character would end an SSE line";
}

TEST(JsonString, CharactersOfEveryLengthStayAsTheyAre) {
  const std::string text = "aé世🙂\xf4\x8f\xbf\xbf";  // the last one: U+10FFFF
  EXPECT_EQ(json_string(text), "\"" + text + "\"");
}

TEST(JsonString, WhatLineReadersBreakAtIsEscaped) {
  EXPECT_EQ(json_string("a\xc2\x85"
                        "b\xe2\x80\xa8"
                        "c\xe2\x80\xa9"),
            R"("a\u0085b\u2028c\u2029")");
}

TEST(JsonString, IllFormedUtf8BecomesOneReplacementPerMaximalSubpart) {
  const std::string u = "\xef\xbf\xbd";
  EXPECT_EQ(read_back(json_string("a\xff"
                                  "b")),
            "a" + u + "b");
  EXPECT_EQ(read_back(json_string("\xf0\x9f\x98")), u);                  // cut: one subpart
  EXPECT_EQ(read_back(json_string("\xed\xa0\x80")), u + u + u);          // a surrogate
  EXPECT_EQ(read_back(json_string("\xc0\xaf")), u + u);                  // overlong
  EXPECT_EQ(read_back(json_string("\xf4\x90\x80\x80")), u + u + u + u);  // above U+10FFFF
  EXPECT_EQ(read_back(json_string("\xe4\xb8"
                                  "a")),
            u + "a");
}

TEST(JsonLogprob, ReadsBackEqualAndIsAlwaysANumber) {
  for (const float value : {0.0f, -0.1f, -1e-10f, -123.456f}) {
    std::string out;
    append_json_logprob(out, value);
    EXPECT_EQ(Json::parse(out).get<float>(), value) << out;
  }
  for (const float value :
       {-std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::string out;
    append_json_logprob(out, value);
    EXPECT_EQ(Json::parse(out).get<float>(), -9999.0f) << out;
  }
}

TEST(JsonIds, AreAListEvenWhenThereAreNone) {
  std::string out;
  append_json_ids(out, {});
  append_json_ids(out, std::vector<TokenId>{7, 0, 4294967295u});
  EXPECT_EQ(out, "[][7,0,4294967295]");
}

TEST(TokenText, ShowsOnlyTheBytesThatAreNoCharacter) {
  EXPECT_EQ(token_text("é\xf0\x9f"), "é\\xf0\\x9f");
  EXPECT_EQ(token_text("plain"), "plain");
}

TEST(Shortened, CutsBetweenCharacters) {
  EXPECT_EQ(shortened("12345", 5), "12345");
  EXPECT_EQ(shortened("123456", 5), "12345...");
  EXPECT_EQ(shortened("123世6", 5), "123...");  // 世 has 3 bytes, of which 2 would fit
}

}  // namespace
}  // namespace pacer::api
