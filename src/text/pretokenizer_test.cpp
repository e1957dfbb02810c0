#include "text/pretokenizer.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace pacer::text {
namespace {

using Pieces = std::vector<std::string_view>;

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
  EXPECT_EQ(refused.error().message,
            "pre-tokenizer 'qwen9' is unknown; known are gpt-2, smollm, llama-bpe");
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
  for (const char* pre : {"gpt-2", "smollm", "llama-bpe"}) {
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
  for (const char* pre : {"gpt-2", "smollm", "llama-bpe"}) {
    for (const std::string unit : {" ", "\n", "a", "!", "\u3000", "語", "\xFF"}) {
      std::string text;
      while (text.size() < 3'000'000) text += unit;
      EXPECT_EQ(split(pre, text).size(), 1u) << pre << " '" << unit << "'";
    }
  }
}

}  // namespace
}  // namespace pacer::text
