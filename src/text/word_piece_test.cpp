#include "text/word_piece.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace pacer::text {
namespace {

using Ids = std::vector<TokenId>;

constexpr TokenId kUnknown = 0, kCls = 1, kSep = 2, kMask = 3;

// [UNK], [CLS], [SEP], [MASK], then what a test gives.
struct Words {
  Vocabulary vocabulary;

  explicit Words(const std::vector<std::string>& tokens) {
    vocabulary.model = "bert";
    vocabulary.tokens = {"[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    vocabulary.kinds = {TokenKind::kUnknown, TokenKind::kControl, TokenKind::kControl,
                        TokenKind::kControl};
    for (const std::string& token : tokens) vocabulary.tokens.push_back(token);
    vocabulary.kinds.resize(vocabulary.tokens.size(), TokenKind::kNormal);
    vocabulary.unknown = kUnknown;
    vocabulary.bos = kCls;
    vocabulary.eos = kSep;
    vocabulary.add_bos = vocabulary.add_eos = true;
    vocabulary.lowercase = vocabulary.strip_accents = true;
  }
  std::unique_ptr<Tokenizer> build() const {
    auto tokenizer = Tokenizer::from_vocabulary(vocabulary);
    EXPECT_TRUE(tokenizer.ok()) << (tokenizer.ok() ? "" : tokenizer.error().message);
    return *std::move(tokenizer);
  }
  // The stored texts of the tokens, with a space between.
  std::string tokens_of(std::string_view text) const {
    std::string out;
    for (const TokenId id : build()->encode(text, {.add_special = false})) {
      out += (out.empty() ? "" : " ") + vocabulary.tokens[id];
    }
    return out;
  }
};

TEST(WordPiece, AWordIsCoveredByTheLongestTokensFromItsFront) {
  const Words words({"\u2581un", "\u2581unaff", "aff", "able", "a", "b", "le"});
  EXPECT_EQ(words.tokens_of("unaffable"), "\u2581unaff able");
  EXPECT_EQ(words.tokens_of("unable un"), "\u2581un able \u2581un");
}

TEST(WordPiece, AWordThatCannotBeCoveredIsOneUnknownToken) {
  const Words words({"\u2581un", "able"});
  EXPECT_EQ(words.tokens_of("unxable un"), "[UNK] \u2581un");
  EXPECT_EQ(words.tokens_of("able"), "[UNK]") << "it goes on, but begins no word";
}

TEST(WordPiece, WordsAreLoweredAndLoseTheirAccents) {
  Words words({"\u2581strasse", "\u2581arger", "\u2581\u00e4rger", "\u2581Arger"});
  EXPECT_EQ(words.tokens_of("\u00c4RGER A\u0308rger"), "\u2581arger \u2581arger");
  words.vocabulary.strip_accents = false;
  EXPECT_EQ(words.tokens_of("\u00c4RGER"), "\u2581\u00e4rger");
  words.vocabulary.lowercase = false;
  EXPECT_EQ(words.tokens_of("Arger arger \u00e4rger"), "\u2581Arger \u2581arger \u2581\u00e4rger");
}

TEST(WordPiece, MarksAndChineseCharactersAreWordsOfTheirOwn) {
  const Words words({"\u2581a", "\u2581b", "\u2581.", "\u2581$", "\u2581\u4f60", "\u2581\u597d"});
  EXPECT_EQ(words.tokens_of("a.b$a"), "\u2581a \u2581. \u2581b \u2581$ \u2581a");
  EXPECT_EQ(words.tokens_of("a\u4f60\u597db"), "\u2581a \u2581\u4f60 \u2581\u597d \u2581b");
}

TEST(WordPiece, SpacesOfAllKindsEndWordsAndControlCharactersVanish) {
  const Words words({"\u2581a", "\u2581ab", "\u2581b"});
  EXPECT_EQ(words.tokens_of("a\t\u00a0b\u3000a\r\n"), "\u2581a \u2581b \u2581a");
  EXPECT_EQ(words.tokens_of(std::string("a\0b ", 4) + "a\x01\u200b\u00adb"), "\u2581ab \u2581ab");
  EXPECT_EQ(words.tokens_of("a\xFF\xE4\xBD\ufffd"
                            "b"),
            "\u2581ab")
      << "no character: left out";
  EXPECT_EQ(words.tokens_of(" \n "), "");
}

TEST(WordPiece, TextsStandBetweenClsAndSep) {
  const auto tokenizer = Words({"\u2581a"}).build();
  EXPECT_EQ(tokenizer->encode("a"), (Ids{kCls, 4, kSep}));
  EXPECT_EQ(tokenizer->encode(""), (Ids{kCls, kSep}));
  EXPECT_EQ(tokenizer->encode("a [MASK] a"), (Ids{kCls, 4, kMask, 4, kSep}));
  EXPECT_EQ(tokenizer->encode("[MASK]", {.add_special = false, .parse_special = false}),
            (Ids{kUnknown, kUnknown, kUnknown}));
  EXPECT_EQ(tokenizer->decode(Ids{kCls, 4, 4, kSep}, true), "a a");
}

TEST(WordPiece, AMegabyteOfOneLetterIsNoTrouble) {
  const auto tokenizer = Words({"\u2581a", "aaaa", "a"}).build();
  EXPECT_EQ(tokenizer->encode(std::string((1 << 20) + 1, 'a'), {.add_special = false}).size(),
            1u + (1 << 18));
}

}  // namespace
}  // namespace pacer::text
