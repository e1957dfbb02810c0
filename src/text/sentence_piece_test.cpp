#include "text/sentence_piece.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/test_seed.h"
#include "text/test_tokenizer.h"
#include "text/token_text.h"

namespace pacer::text {
namespace {

using Ids = std::vector<TokenId>;

constexpr TokenId kUnknown = 0, kBos = 1, kEos = 2;
constexpr TokenId byte_token(uint8_t byte) {
  return 3u + byte;
}

// <unk>, <s>, </s>, the 256 byte tokens, and what a test adds.
struct Builder {
  Vocabulary vocabulary;

  Builder() {
    vocabulary.model = "llama";
    add("<unk>", 0, TokenKind::kUnknown);
    add("<s>", 0, TokenKind::kControl);
    add("</s>", 0, TokenKind::kControl);
    for (unsigned byte = 0; byte < 256; ++byte) {
      add(fmt::format("<0x{:02X}>", byte), 0, TokenKind::kByte);
    }
    vocabulary.unknown = kUnknown;
    vocabulary.bos = kBos;
    vocabulary.eos = kEos;
  }
  TokenId add(std::string text, float score, TokenKind kind = TokenKind::kNormal) {
    vocabulary.tokens.push_back(std::move(text));
    vocabulary.kinds.push_back(kind);
    vocabulary.scores.push_back(score);
    return static_cast<TokenId>(vocabulary.tokens.size() - 1);
  }
  std::unique_ptr<Tokenizer> build() const {
    auto tokenizer = Tokenizer::from_vocabulary(vocabulary);
    EXPECT_TRUE(tokenizer.ok()) << (tokenizer.ok() ? "" : tokenizer.error().message);
    return *std::move(tokenizer);
  }
};

TEST(SentencePiece, TheBestScoreJoinsFirstAndTheLeftmostOfEquals) {
  Builder b;
  const TokenId a = b.add("a", -9), c = b.add("c", -9);
  const TokenId ab = b.add("ab", -2), bc = b.add("bc", -1), aa = b.add("aa", -1);
  b.add("b", -9);
  const auto tokenizer = b.build();
  EXPECT_EQ(tokenizer->encode("abc"), (Ids{a, bc}));
  EXPECT_EQ(tokenizer->encode("ab"), (Ids{ab}));
  EXPECT_EQ(tokenizer->encode("aaa"), (Ids{aa, a}));
  EXPECT_EQ(tokenizer->encode("abab"), (Ids{ab, ab}));
  EXPECT_EQ(tokenizer->encode("c"), (Ids{c}));
}

TEST(SentencePiece, JoinsBuildOnJoins) {
  Builder b;
  for (const char* letter : {"a", "b", "c", "d"}) b.add(letter, -9);
  b.add("ab", -3);
  b.add("cd", -4);
  const TokenId abcd = b.add("abcd", -5);
  const auto tokenizer = b.build();
  EXPECT_EQ(tokenizer->encode("abcd"), (Ids{abcd}));
  EXPECT_EQ(tokenizer->encode("abcdabcd"), (Ids{abcd, abcd}));
}

TEST(SentencePiece, CharactersThatAreNoTokenAreWrittenAsBytes) {
  const auto tokenizer = Builder().build();
  EXPECT_EQ(tokenizer->encode("\u00e9"), (Ids{byte_token(0xC3), byte_token(0xA9)}));
  EXPECT_EQ(tokenizer->token_bytes(byte_token(0xC3)), "\xC3");
  Builder without;
  without.vocabulary.kinds.assign(259, TokenKind::kControl);  // the byte tokens are gone
  without.vocabulary.kinds[0] = TokenKind::kUnknown;
  EXPECT_EQ(without.build()->encode("\u00e9x"), (Ids{kUnknown, kUnknown})) << "one a character";
}

TEST(SentencePiece, TextIsNeitherAByteTokenNorAControlToken) {
  Builder b;
  for (const char c : std::string("<0xA>s/")) b.add(std::string(1, c), -1);
  b.add("<s", -1);
  b.add("<0x0A", -1);
  const auto tokenizer = b.build();
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("<0x0A>"), false), "<0x0A>");
  EXPECT_GT(tokenizer->encode("<0x0A>").size(), 1u);
  EXPECT_EQ(tokenizer->encode("<s>", {.parse_special = false}).size(), 2u);
  EXPECT_EQ(tokenizer->encode("<s>"), (Ids{kBos}));
}

TEST(SentencePiece, ASpaceIsPutBeforeTextThatFollowsNothingOrASpecialToken) {
  Builder b;
  b.vocabulary.add_space_prefix = true;
  b.vocabulary.add_bos = true;
  const TokenId a = b.add("a", -2), space_a = b.add("\u2581a", -1), space = b.add("\u2581", -3);
  const TokenId mark = b.add("<mark>", 0, TokenKind::kUserDefined);
  const auto tokenizer = b.build();
  EXPECT_EQ(tokenizer->encode("aa"), (Ids{kBos, space_a, a}));
  EXPECT_EQ(tokenizer->encode(" a"), (Ids{kBos, space, space_a}));
  EXPECT_EQ(tokenizer->encode("a</s>a"), (Ids{kBos, space_a, kEos, space_a}));
  EXPECT_EQ(tokenizer->encode("a<mark>a"), (Ids{kBos, space_a, mark, space_a}));
  EXPECT_EQ(tokenizer->encode("</s>"), (Ids{kBos, kEos}));
  EXPECT_EQ(tokenizer->encode(""), (Ids{kBos}));
  EXPECT_EQ(tokenizer->encode("<s>a"), (Ids{kBos, space_a})) << "one BOS";
}

TEST(SentencePiece, DecodingTakesThoseSpacesOffAgainAndNoOthers) {
  Builder b;
  b.vocabulary.add_space_prefix = true;
  const TokenId a = b.add("a", -2), space_a = b.add("\u2581a", -1);
  b.add("\u2581", -3);
  b.add("<mark>", 0, TokenKind::kUserDefined);
  const auto tokenizer = b.build();
  for (const std::string text : {"a a", " a", "  a  ", "a</s> a<mark>a </s></s>a", "<mark> "}) {
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text), false), text);
  }
  EXPECT_EQ(tokenizer->decode(Ids{kBos, space_a, space_a}, true), "a a");
  EXPECT_EQ(tokenizer->decode(Ids{a, space_a}, false), "a a");
  // An answer is not a whole text: its first token keeps its space.
  EXPECT_EQ(tokenizer->token_bytes(space_a), " a");
}

TEST(SentencePiece, WhiteSpaceAfterSpecialTokensGoesWhereTheModelSaysSo) {
  Builder b;
  const TokenId a = b.add("a", -1);
  const TokenId user = b.add("<|user|>", 0, TokenKind::kControl);
  b.vocabulary.strip_after_special = true;
  const auto tokenizer = b.build();
  EXPECT_EQ(tokenizer->encode("<|user|> \n\ta"), (Ids{user, a}));
  EXPECT_EQ(tokenizer->encode("<|user|>\n<|user|> "), (Ids{user, user}));
  EXPECT_EQ(tokenizer->encode("<s>\na"), (Ids{kBos, byte_token('\n'), a})) << "not after this one";
  EXPECT_EQ(tokenizer->encode("<|user|>\u00a0").size(), 3u) << "only what C calls space";
}

TEST(SentencePiece, BytesThatAreNoCharacterComeBackAsTheyWere) {
  const auto tokenizer = Builder().build();
  for (const std::string bytes :
       {"a\xFF"
        "b",
        "\x80\x80", "\xC3", "\xE4\xBD", "\xC0\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80",
        "\xE4"
        "abc"}) {
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(bytes), false), bytes);
  }
}

TEST(SentencePiece, AnyTextComesBackAsItWas) {
  const uint64_t seed = test_seed();
  std::mt19937_64 rng(seed);
  for (const bool prefix : {false, true}) {
    Builder b;
    b.vocabulary.add_space_prefix = prefix;
    for (const char* text : {"\u2581", "\u2581\u2581", "a", "\u2581a", "aa", "\xC3\xA9"}) {
      b.add(text, -static_cast<float>(rng() % 4));
    }
    const auto tokenizer = b.build();
    for (int round = 0; round < 300; ++round) {
      const std::string text = random_text(rng, 40);
      ASSERT_EQ(tokenizer->decode(tokenizer->encode(text), false), text)
          << "PACER_TEST_SEED=" << seed << " round " << round;
    }
  }
}

// The rule, word for word: of all neighbours that make a token join the best, until none do.
Ids encode_slowly(const Vocabulary& vocabulary, std::string_view text) {
  std::vector<std::string> row;
  for (const char c : text) row.emplace_back(1, c);
  const auto id_of = [&](const std::string& token) -> std::optional<TokenId> {
    const auto found = std::find(vocabulary.tokens.begin(), vocabulary.tokens.end(), token);
    if (found == vocabulary.tokens.end()) return std::nullopt;
    return static_cast<TokenId>(found - vocabulary.tokens.begin());
  };
  while (true) {
    std::optional<size_t> best;
    float best_score = 0;
    for (size_t i = 0; i + 1 < row.size(); ++i) {
      const auto id = id_of(row[i] + row[i + 1]);
      if (id && (!best || vocabulary.scores[*id] > best_score)) {
        best = i;
        best_score = vocabulary.scores[*id];
      }
    }
    if (!best) break;
    row[*best] += row[*best + 1];
    row.erase(row.begin() + static_cast<ptrdiff_t>(*best) + 1);
  }
  Ids ids;
  for (const std::string& token : row) {
    const auto id = id_of(token);
    ids.push_back(id ? *id : byte_token(static_cast<uint8_t>(token[0])));
  }
  return ids;
}

TEST(SentencePiece, CuttingTheTextFirstChangesNothing) {
  const uint64_t seed = test_seed();
  std::mt19937_64 rng(seed);
  const auto word = [&](size_t size_min, size_t size_max) {
    std::string text;
    for (size_t n = size_min + rng() % (size_max - size_min + 1); n > 0; --n) {
      text += "abcd"[rng() % 4];
    }
    return text;
  };
  for (int round = 0; round < 100; ++round) {
    Builder b;
    for (int n = 0; n < 12; ++n) {
      const std::string text = word(1, 4);
      if (std::find(b.vocabulary.tokens.begin(), b.vocabulary.tokens.end(), text) ==
          b.vocabulary.tokens.end()) {
        b.add(text, -static_cast<float>(rng() % 5));
      }
    }
    const auto tokenizer = b.build();
    for (int n = 0; n < 10; ++n) {
      const std::string text = word(0, 80);  // also longer than what is merged by scanning
      ASSERT_EQ(tokenizer->encode(text), encode_slowly(b.vocabulary, text))
          << "PACER_TEST_SEED=" << seed << " round " << round << " " << text;
    }
  }
}

TEST(SentencePiece, AMegabyteOfOneLetterEndsInTokensOfTheLargestPowerOfTwo) {
  // Quadratic work would be 10^12 steps: the test would not end.
  Builder b;
  std::string text = "a";
  TokenId last = 0;
  for (int k = 0; k < 8; ++k, text += text) last = b.add(text, static_cast<float>(-k));
  EXPECT_EQ(b.build()->encode(std::string(1 << 20, 'a')), Ids(1 << 13, last));
}

TEST(TokenText, BytesAreRecognisedAndSpacesComeBack) {
  EXPECT_EQ(byte_of_token_text("<0x0A>"), 10);
  EXPECT_EQ(byte_of_token_text("<0xfF>"), 255);
  for (const char* text : {"", "<0x0A", "<0x0A>>", "<0xG0>", "<0x0 >", "a0x0A>"}) {
    EXPECT_EQ(byte_of_token_text(text), std::nullopt) << text;
  }
  EXPECT_EQ(with_spaces("\u2581a\u2581\u2581"), " a  ");
  EXPECT_EQ(with_spaces("\xE2\x96"), "\xE2\x96");
}

}  // namespace
}  // namespace pacer::text
