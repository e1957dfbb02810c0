#include "text/stream_decoder.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "text/utf8.h"

namespace pacer::text {
namespace {

const std::string kFffd = "\xEF\xBF\xBD";

std::string assemble(std::string_view bytes) {
  Utf8Assembler assembler;
  std::string out = assembler.push(bytes);
  return out += assembler.finish();
}

TEST(Utf8Assembler, HoldsBackWhatIsHalfACharacter) {
  Utf8Assembler assembler;
  EXPECT_EQ(assembler.push("a\xF0\x9F"), "a");
  EXPECT_EQ(assembler.push("\x98"), "");
  EXPECT_EQ(assembler.push("\x80z"), "\xF0\x9F\x98\x80z");
  EXPECT_EQ(assembler.finish(), "");
}

TEST(Utf8Assembler, AnUnfinishedCharacterBecomesOneReplacementAtTheEnd) {
  Utf8Assembler assembler;
  EXPECT_EQ(assembler.push("a\xF0\x9F\x98"), "a");
  EXPECT_EQ(assembler.finish(), kFffd);
  EXPECT_EQ(assembler.finish(), "") << "it is said once";
}

// The examples of Unicode 15, section 3.9, tables 3-8 to 3-11.
TEST(Utf8Assembler, ReplacesMaximalSubparts) {
  const auto times = [](int n) {
    std::string out;
    for (int i = 0; i < n; ++i) out += kFffd;
    return out;
  };
  EXPECT_EQ(assemble("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), times(8) + "A");
  EXPECT_EQ(assemble("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), times(8) + "A");
  EXPECT_EQ(assemble("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), times(5) + "A" + times(2) + "B");
  EXPECT_EQ(assemble("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), times(4) + "A");
}

TEST(Utf8Assembler, TheLastCodePointsOfEachLengthPass) {
  for (const std::string text :
       {"\x7F", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
        "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_EQ(assemble(text), text);
    EXPECT_TRUE(is_valid_utf8(text));
  }
}

TEST(Utf8Assembler, HowAStreamIsCutLeavesNoTrace) {
  const auto seed = std::random_device{}();
  std::mt19937 rng(seed);
  // Bytes that begin, continue and break characters, so that random ones meet often.
  const std::string alphabet =
      "a\x80\x8F\x90\x9F\xA0\xBF\xC0\xC2\xE0\xE1\xED\xEF\xF0\xF1\xF4\xF5\xFF";
  for (int round = 0; round < 3000; ++round) {
    std::string bytes;
    for (size_t n = rng() % 24; n > 0; --n) bytes += alphabet[rng() % alphabet.size()];
    Utf8Assembler assembler;
    std::string streamed;
    for (size_t from = 0; from < bytes.size();) {
      const size_t size = 1 + rng() % 5;
      streamed += assembler.push(std::string_view(bytes).substr(from, size));
      ASSERT_TRUE(is_valid_utf8(streamed)) << "seed " << seed << " round " << round;
      from += size;
    }
    streamed += assembler.finish();
    ASSERT_EQ(streamed, assemble(bytes)) << "seed " << seed << " round " << round;
    ASSERT_TRUE(is_valid_utf8(streamed)) << "seed " << seed << " round " << round;
  }
}

// All that comes out when `text` goes in with pieces of `size` bytes, and the stop string if one
// ended it.
StopMatcher::Output run(const std::vector<std::string>& stops, std::string_view text, size_t size) {
  StopMatcher matcher(stops);
  StopMatcher::Output all;
  for (size_t from = 0; from < text.size(); from += size) {
    StopMatcher::Output output = matcher.push(text.substr(from, size));
    all.text += output.text;
    if (output.matched) all.matched = output.matched;
  }
  all.text += matcher.finish();
  return all;
}

TEST(StopMatcher, CutsBeforeTheStopStringHoweverItArrives) {
  for (size_t size = 1; size <= 30; ++size) {
    const auto out = run({"beta gamma"}, "alpha beta gamma delta", size);
    EXPECT_EQ(out.text, "alpha ") << size;
    EXPECT_EQ(out.matched, "beta gamma") << size;
  }
}

TEST(StopMatcher, HoldsBackAProperPrefixAndNothingMore) {
  StopMatcher matcher({"beta gamma"});
  EXPECT_EQ(matcher.push("alpha b").text, "alpha ");
  EXPECT_EQ(matcher.push("ig bet").text, "big ");
  EXPECT_EQ(matcher.push("a g").text, "");
  EXPECT_EQ(matcher.push("reen").text, "beta green");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, WhatWasHeldComesOutAtTheEnd) {
  StopMatcher matcher({"###"});
  EXPECT_EQ(matcher.push("a##").text, "a");
  EXPECT_EQ(matcher.finish(), "##");
}

TEST(StopMatcher, FindsAMatchThatBeginsInsideAFailedOne) {
  const auto out = run({"aab"}, "xaaab", 1);
  EXPECT_EQ(out.text, "xa");
  EXPECT_EQ(out.matched, "aab");
}

TEST(StopMatcher, TheFirstToBeCompleteWinsAndOfSeveralTheLongest) {
  EXPECT_EQ(run({"abcd", "bc"}, "abcd", 4).matched, "bc");
  EXPECT_EQ(run({"abcd", "bc"}, "abcd", 4).text, "a");
  EXPECT_EQ(run({"c", "abc", "bc"}, "xabcx", 5).matched, "abc");
  EXPECT_EQ(run({"c", "abc", "bc"}, "xabcx", 5).text, "x");
}

TEST(StopMatcher, NothingComesOutAfterAMatch) {
  StopMatcher matcher({"."});
  EXPECT_EQ(matcher.push("a.b").text, "a");
  const auto after = matcher.push("c.d");
  EXPECT_EQ(after.text, "");
  EXPECT_EQ(after.matched, std::nullopt);
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, EmptyAndImpossibleStopStringsAreIgnored) {
  // "\xA9" is the second byte of U+00E9 too: it would cut the character in half.
  const auto out = run({"", "\xA9"}, "caf\xC3\xA9!", 3);
  EXPECT_EQ(out.text, "caf\xC3\xA9!");
  EXPECT_EQ(out.matched, std::nullopt);
}

TEST(StopMatcher, AgreesWithASearchOfTheWholeText) {
  const auto seed = std::random_device{}();
  std::mt19937 rng(seed);
  const auto word = [&](size_t size_max) {
    std::string out;
    for (size_t n = 1 + rng() % size_max; n > 0; --n) out += "abc"[rng() % 3];
    return out;
  };
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> stops;
    for (size_t n = rng() % 4; n > 0; --n) stops.push_back(word(5));
    const std::string text = word(30);
    std::string expected = text;
    std::optional<std::string> expected_stop;
    for (size_t end = 1; end <= text.size() && !expected_stop; ++end) {
      for (const std::string& stop : stops) {
        const bool ends_here = text.substr(0, end).ends_with(stop);
        if (ends_here && (!expected_stop || stop.size() > expected_stop->size())) {
          expected_stop = stop;
        }
      }
      if (expected_stop) expected = text.substr(0, end - expected_stop->size());
    }
    const auto out = run(stops, text, 1 + rng() % 6);
    ASSERT_EQ(out.text, expected) << "seed " << seed << " round " << round;
    ASSERT_EQ(out.matched, expected_stop) << "seed " << seed << " round " << round;
  }
}

}  // namespace
}  // namespace pacer::text
