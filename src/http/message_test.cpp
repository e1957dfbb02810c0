#include "http/message.h"

#include <gtest/gtest.h>

namespace pacer::http {
namespace {

TEST(Headers, NamesCompareWithoutCase) {
  Headers headers{{"Content-Type", "a"}, {"X-Twice", "1"}, {"x-twice", "2"}};
  ASSERT_NE(headers.find("content-TYPE"), nullptr);
  EXPECT_EQ(*headers.find("content-TYPE"), "a");
  EXPECT_EQ(headers.find("Content-Typ"), nullptr);
  EXPECT_EQ(headers.find("Content-Type2"), nullptr);
  EXPECT_EQ(headers.count("X-TWICE"), 2u);
  headers.set("X-Twice", "3");
  EXPECT_EQ(headers.count("x-twice"), 1u);
  EXPECT_EQ(*headers.find("x-twice"), "3");
}

TEST(PercentDecode, GivesTheBytesMeant) {
  EXPECT_EQ(percent_decode("/a%20b%2fc%2B+"), "/a b/c++");
  EXPECT_EQ(percent_decode("%c3%A9"), "\xc3\xa9");
  EXPECT_EQ(percent_decode(""), "");
}

TEST(PercentDecode, RefusesABrokenEscapeAndAnEncodedNul) {
  for (const char* bad : {"%", "%4", "a%4", "%g0", "%0g", "%%20", "%00", "/a%00b"}) {
    EXPECT_EQ(percent_decode(bad), std::nullopt) << bad;
  }
  EXPECT_EQ(percent_decode("%01"), "\x01");  // the nearest byte that is no NUL
}

TEST(QueryValue, FindsAWholeNameOnly) {
  EXPECT_EQ(query_value("a=1&ab=2&b", "a"), "1");
  EXPECT_EQ(query_value("a=1&ab=2&b", "ab"), "2");
  EXPECT_EQ(query_value("a=1&ab=2&b", "b"), "");
  EXPECT_EQ(query_value("a=1&ab=2&b", "c"), std::nullopt);
  EXPECT_EQ(query_value("q=x+y%26z", "q"), "x y&z");
  EXPECT_EQ(query_value("q=%", "q"), std::nullopt);
  EXPECT_EQ(query_value("", "q"), std::nullopt);
}

TEST(HeaderGrammar, RefusesWhatCouldSplitAResponse) {
  EXPECT_TRUE(is_header_value("plain, with\ttab and \xc3\xa9"));
  EXPECT_FALSE(is_header_value("a\r\nX: y"));
  EXPECT_FALSE(is_header_value("a\nb"));
  EXPECT_FALSE(is_header_value(std::string_view("a\0b", 3)));
  EXPECT_TRUE(is_header_name("X-Request-Id"));
  for (const std::string_view bad : {"", "X Y", "X:", "X\r\n", "\xc3\xa9"}) {
    EXPECT_FALSE(is_header_name(bad)) << bad;
  }
}

}  // namespace
}  // namespace pacer::http
