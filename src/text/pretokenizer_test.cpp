#include "text/pretokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace pacer::text {
namespace {

using ::testing::HasSubstr;
using Pieces = std::vector<std::string_view>;

// One name for each rule.
constexpr const char* kAll[] = {"gpt-2",  "smollm",       "llama-bpe",      "qwen2",
                                "qwen35", "deepseek-llm", "deepseek-coder", "deepseek-v3",
                                "falcon", "tekken",       "gpt-4o",         "default"};

Pieces split(std::string_view pre, std::string_view text) {
  auto pretokenizer = Pretokenizer::create(pre);
  EXPECT_TRUE(pretokenizer.ok());
  Pieces pieces;
  (*pretokenizer)->split(text, pieces);
  return pieces;
}

TEST(Pretokenizer, UnknownNamesAreRefusedWithTheKnownOnes) {
  const auto refused = Pretokenizer::create("qwen9");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
  EXPECT_THAT(refused.error().message,
              HasSubstr("pre-tokenizer 'qwen9' is unknown; known are gpt-2, "));
  for (const char* name : {"smollm", "llama-bpe", "qwen2", "deepseek-llm", "deepseek-coder",
                           "falcon", "starcoder", "refact", "command-r", "mpt", "default"}) {
    EXPECT_THAT(refused.error().message, HasSubstr(name));
    EXPECT_TRUE(Pretokenizer::create(name).ok()) << name;
  }
  EXPECT_FALSE(Pretokenizer::create("").ok());
}

TEST(Pretokenizer, Gpt2KeepsNumbersWholeAndTakesOneSpaceWithAWord) {
  EXPECT_EQ(split("gpt-2", "I'll pay  1234!!\n\n x"),
            (Pieces{"I", "'ll", " pay", " ", " 1234", "!!", "\n\n", " x"}));
}

TEST(Pretokenizer, SmollmCutsEachDigitOff) {
  EXPECT_EQ(split("smollm", "a 12\u00bd b"), (Pieces{"a", " ", "1", "2", "\u00bd", " b"}));
}

TEST(Pretokenizer, LlamaCutsNumbersInThreesAndLetsAMarkLeadAWord) {
  EXPECT_EQ(split("llama-bpe", "It'S 12345 _x\t.y.\n\n z"),
            (Pieces{"It", "'S", " ", "123", "45", " _", "x", "\t", ".y", ".\n\n", " z"}));
}

TEST(Pretokenizer, Qwen2CutsDigitByDigit) {
  EXPECT_EQ(split("qwen2", "It'S 123 _x.\n z"),
            (Pieces{"It", "'S", " ", "1", "2", "3", " _", "x", ".\n", " z"}));
  EXPECT_EQ(split("qwen2", "e\u0301a"), (Pieces{"e", "\u0301a"})) << "a mark may lead a word";
  EXPECT_EQ(split("qwen35", "e\u0301a"), (Pieces{"e\u0301a"})) << "a mark is a letter";
}

TEST(Pretokenizer, DeepseekLlmCutsScriptsApart) {
  // Its punctuation, ":-~", includes the letters of ASCII.
  EXPECT_EQ(split("deepseek-llm", "the \u4f60\u597d caf\u00e9 12345. x\n\ny  "),
            (Pieces{"the", " ", "\u4f60\u597d", " caf", "\u00e9", " ", "12345", ".", " x", "\n",
                    "\n", "y", "  "}));
  EXPECT_EQ(split("deepseek-llm", "\u4f60\u3000\u3000\u597d"),
            (Pieces{"\u4f60", "\u3000\u3000", "\u597d"}));
  EXPECT_EQ(split("deepseek-llm", "a   1"), (Pieces{"a", "   ", "1"}));
}

TEST(Pretokenizer, DeepseekCoderCutsDigitsOneByOne) {
  EXPECT_EQ(split("deepseek-coder", "x = 12;"), (Pieces{"x", " = ", "1", "2", ";"}));
}

TEST(Pretokenizer, FalconCutsPunctuationFirstAndThreeDigitsOff) {
  EXPECT_EQ(split("falcon", "it's 12345 (ok)"),
            (Pieces{"it", "'", "s", " ", "123", "45", " ", "(", "ok", ")"}));
  EXPECT_EQ(split("default", "it's 12345"), (Pieces{"it", "'", "s", " ", "123", "45"}));
}

TEST(Pretokenizer, TekkenAndGpt4oCutWhereCapitalsBegin) {
  EXPECT_EQ(split("tekken", "helloWorld HTTPServer"), (Pieces{"hello", "World", " HTTPServer"}));
  EXPECT_EQ(split("tekken", "it's 12"), (Pieces{"it", "'s", " ", "1", "2"}));
  EXPECT_EQ(split("gpt-4o", "it's 1234"), (Pieces{"it's", " ", "123", "4"}));
}

TEST(Pretokenizer, BytesThatAreNoCharacterArePiecesOfTheirOwn) {
  EXPECT_EQ(split("gpt-2", "ab\xFF\xFE cd\xE4\xBD"), (Pieces{"ab", "\xFF\xFE", " cd", "\xE4\xBD"}));
  EXPECT_EQ(split("smollm", "\x80"), (Pieces{"\x80"}));
  EXPECT_EQ(split("llama-bpe", ""), Pieces{});
}

TEST(Pretokenizer, PiecesAreTheTextAgainWhateverItIs) {
  const auto seed = std::random_device{}();
  std::mt19937 rng(seed);
  const std::vector<std::string> parts = {"a",  "B",      " ",    "  ",   "\n", "\r",
                                          "\t", "7",      "'s",   "!",    "-",  "é",
                                          "语", "\u00a0", "\xFF", "\xE8", "\0", "\u0301"};
  for (const char* pre : kAll) {
    auto pretokenizer = Pretokenizer::create(pre);
    ASSERT_TRUE(pretokenizer.ok());
    for (int round = 0; round < 500; ++round) {
      std::string text;
      for (size_t n = rng() % 30; n > 0; --n) text += parts[rng() % parts.size()];
      Pieces pieces;
      (*pretokenizer)->split(text, pieces);
      std::string joined;
      for (const std::string_view piece : pieces) {
        ASSERT_FALSE(piece.empty()) << "seed " << seed << " round " << round;
        joined += piece;
      }
      ASSERT_EQ(joined, text) << "seed " << seed << " round " << round;
    }
  }
}

TEST(Pretokenizer, LongRunsOfOneKindArePossible) {
  // Patterns that step back over the run, or a stack that grows with it, would not survive these.
  for (const char* pre : kAll) {
    for (const std::string unit : {" ", "\n", "a", "!", "\u3000", "語", "\xFF"}) {
      std::string text;
      while (text.size() < 1'000'000) text += unit;
      EXPECT_FALSE(split(pre, text).empty()) << pre << " '" << unit << "'";
    }
  }
}

TEST(Pretokenizer, ARunOfSpacesThatDoesNotReachTheEndIsReadOnce) {
  // Tried again from each of its places, this would be 10^12 steps.
  const std::string text = std::string(3'000'000, ' ') + "1";
  for (const char* pre : kAll) EXPECT_GE(split(pre, text).size(), 2u) << pre;
}

}  // namespace
}  // namespace pacer::text
