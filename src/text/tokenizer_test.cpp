#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/test_seed.h"
#include "text/test_tokenizer.h"

namespace pacer::text {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<TokenId>;

// The bytes, the two control tokens, and what a test adds.
struct Builder {
  Vocabulary vocabulary = test_vocabulary();

  TokenId add(std::string text, TokenKind kind = TokenKind::kNormal) {
    vocabulary.tokens.push_back(std::move(text));
    vocabulary.kinds.push_back(kind);
    return static_cast<TokenId>(vocabulary.tokens.size() - 1);
  }
  // The token that the merge makes.
  TokenId merge(const std::string& left, const std::string& right) {
    vocabulary.merges.push_back(left + " " + right);
    return add(left + right);
  }
  std::unique_ptr<Tokenizer> build() {
    auto tokenizer = Tokenizer::from_vocabulary(vocabulary);
    EXPECT_TRUE(tokenizer.ok()) << (tokenizer.ok() ? "" : tokenizer.error().message);
    return *std::move(tokenizer);
  }
  std::string refusal() {
    auto tokenizer = Tokenizer::from_vocabulary(vocabulary);
    EXPECT_FALSE(tokenizer.ok());
    return tokenizer.ok() ? "" : tokenizer.error().message;
  }
};

TEST(Tokenizer, AnyTextComesBackAsItWas) {
  const auto tokenizer = test_tokenizer();
  const uint64_t seed = test_seed();
  std::mt19937_64 rng(seed);
  for (int round = 0; round < 300; ++round) {
    const std::string text = random_text(rng, 60);
    ASSERT_EQ(tokenizer->decode(tokenizer->encode(text), false), text)
        << "PACER_TEST_SEED=" << seed << " round " << round;
  }
}

TEST(Tokenizer, IllFormedBytesAreReadAsTheReferenceReadsThem) {
  const auto tokenizer = test_tokenizer();
  const auto back = [&](std::string_view bytes) {
    return tokenizer->decode(tokenizer->encode(bytes), false);
  };
  const std::string fffd = "\xEF\xBF\xBD";
  EXPECT_EQ(back("a\xFFz"), "a" + fffd + "z");
  EXPECT_EQ(back("\xE4\xBD"), fffd + fffd) << "one for each byte";
  EXPECT_EQ(back("\xE4\xBD!"), fffd + fffd + "!");
  EXPECT_EQ(back("\xC0\xAF"), "/") << "overlong";
  EXPECT_EQ(back("\xED\xA0\x80"), "\xED\xA0\x80") << "a surrogate";
  EXPECT_EQ(back("\xF4\x90\x80\x80"), fffd + fffd + fffd + fffd) << "beyond U+10FFFF";
  EXPECT_EQ(back("\xF4\x8F\xBF\xBF"), "\xF4\x8F\xBF\xBF") << "the last character";
}

TEST(Tokenizer, MergesStayInsideAPiece) {
  Builder b;
  const TokenId ab = b.merge("a", "b");
  b.merge("b", "\u0120");  // "b ": a piece never ends in a space
  const auto tokenizer = b.build();
  EXPECT_EQ(tokenizer->encode("ab b"), (Ids{ab, ' ', 'b'}));
  EXPECT_EQ(tokenizer->token_bytes(ab), "ab");
}

TEST(Tokenizer, ControlTokensAreRecognisedOnlyWhereAskedFor) {
  const auto tokenizer = test_tokenizer();
  EXPECT_EQ(tokenizer->encode("a<|im_end|>b"), (Ids{'a', kTestImEnd, 'b'}));
  const Ids plain = tokenizer->encode("a<|im_end|>b", {.parse_special = false});
  EXPECT_EQ(plain.size(), 12u);
  EXPECT_EQ(tokenizer->decode(plain, true), "a<|im_end|>b");
}

TEST(Tokenizer, TheLongestSpecialTokenAtTheFirstPlaceIsTaken) {
  Builder b;
  const TokenId shorter = b.add("<x", TokenKind::kControl);
  const TokenId longer = b.add("<xy>", TokenKind::kControl);
  b.add("y>", TokenKind::kControl);
  const auto tokenizer = b.build();
  EXPECT_EQ(tokenizer->encode("<xy>"), (Ids{longer}));
  EXPECT_EQ(tokenizer->encode("<xyz"), (Ids{shorter, 'y', 'z'}));
  EXPECT_EQ(tokenizer->encode("<<xy>"), (Ids{'<', longer}));
}

TEST(Tokenizer, UserDefinedTokensAreRecognisedAlways) {
  Builder b;
  const TokenId think = b.add("<think>", TokenKind::kUserDefined);
  const auto tokenizer = b.build();
  EXPECT_EQ(tokenizer->encode("a<think>", {.parse_special = false}), (Ids{'a', think}));
  EXPECT_FALSE(tokenizer->is_special(think));
  // Also where a control token with the same text, or inside a longer one, is not wanted.
  const TokenId control = b.add("<think>!", TokenKind::kControl);
  const auto both = b.build();
  EXPECT_EQ(both->encode("<think>!"), (Ids{control}));
  EXPECT_EQ(both->encode("<think>!", {.parse_special = false}), (Ids{think, '!'}));
}

TEST(Tokenizer, TextCannotBeMergedIntoAControlToken) {
  Builder b;
  b.add("ab", TokenKind::kControl);
  b.vocabulary.merges.push_back("a b");
  const auto tokenizer = b.build();
  EXPECT_EQ(tokenizer->encode("ab", {.parse_special = false}), (Ids{'a', 'b'}));
}

TEST(Tokenizer, BosIsAddedOnceAndOnlyWhereWanted) {
  Builder b;
  const TokenId bos = b.add("<s>", TokenKind::kControl);
  b.vocabulary.bos = bos;
  b.vocabulary.add_bos = true;
  const auto tokenizer = b.build();
  EXPECT_TRUE(tokenizer->adds_bos());
  EXPECT_EQ(tokenizer->encode("a"), (Ids{bos, 'a'}));
  EXPECT_EQ(tokenizer->encode("<s>a"), (Ids{bos, 'a'})) << "it is there already";
  EXPECT_EQ(tokenizer->encode("<s><s>a<s>"), (Ids{bos, 'a', bos})) << "at the front exactly one";
  EXPECT_EQ(tokenizer->encode("<s><s>a", {.add_special = false}), (Ids{bos, bos, 'a'}));
  EXPECT_EQ(tokenizer->encode(""), (Ids{bos}));
  EXPECT_EQ(tokenizer->encode("a", {.add_special = false}), (Ids{'a'}));
  EXPECT_EQ(tokenizer->encode("<s>", {.parse_special = false}), (Ids{bos, '<', 's', '>'}));
  b.vocabulary.add_bos = false;
  EXPECT_EQ(b.build()->encode("a"), (Ids{'a'}));
  EXPECT_EQ(b.build()->encode("<s><s>a"), (Ids{bos, bos, 'a'})) << "not the model's wish";
}

TEST(Tokenizer, EosIsAddedWhereTheModelWantsIt) {
  Builder b;
  b.vocabulary.add_eos = true;
  EXPECT_EQ(b.build()->encode("a"), (Ids{'a', kTestImEnd}));
  EXPECT_EQ(b.build()->encode("a<|im_end|>"), (Ids{'a', kTestImEnd}));
}

TEST(Tokenizer, GuardsBreakUpControlTokensAndLeaveNoTrace) {
  const std::string guard = "\uFDD0";
  Builder b;
  const TokenId think = b.add("<think>", TokenKind::kUserDefined);
  const TokenId sign = b.add("\u00a7", TokenKind::kControl);
  const TokenId ab = b.merge("a", "b");
  const auto tokenizer = b.build();
  const Ids ids = tokenizer->encode(
      "a" + guard + "b<" + guard + "|im_end|><|im_end|><th" + guard + "ink>\u00a7",
      {.guard = guard});
  Ids expected = {ab};
  for (const char c : std::string("<|im_end|>")) expected.push_back(static_cast<uint8_t>(c));
  expected.insert(expected.end(), {kTestImEnd, think, 0xC2, 0xA7});
  EXPECT_EQ(ids, expected) << "a one-character control token is not taken from a guarded text";
  EXPECT_EQ(tokenizer->encode("\u00a7"), (Ids{sign}));
}

TEST(Tokenizer, LlamaTakesAWholePieceThatIsAToken) {
  Builder b;
  const TokenId whole = b.add("abc");
  const TokenId bc = b.merge("b", "c");
  const TokenId control = b.add("xy", TokenKind::kControl);
  EXPECT_EQ(b.build()->encode("abc"), (Ids{'a', bc})) << "gpt-2 goes by the merges";
  b.vocabulary.pre = "llama-bpe";
  const auto tokenizer = b.build();
  EXPECT_EQ(tokenizer->encode("abc"), (Ids{whole}));
  EXPECT_EQ(tokenizer->encode("xy"), (Ids{control}));
  EXPECT_EQ(tokenizer->encode("xy", {.parse_special = false}), (Ids{'x', 'y'}));
}

TEST(Tokenizer, EndOfGenerationIsEosEotAndTheirKind) {
  Builder b;
  const TokenId text_end = b.add("<|endoftext|>", TokenKind::kControl);
  const TokenId turn_end = b.add("<|eot_id|>", TokenKind::kControl);
  const TokenId spelled = b.add("</s>", TokenKind::kUserDefined);  // it only reads so
  const TokenId odd = b.add("<over>", TokenKind::kControl);
  const TokenId other = b.add("<other>", TokenKind::kControl);
  b.vocabulary.eot = odd;
  const auto tokenizer = b.build();
  EXPECT_EQ(tokenizer->end_of_generation(), (Ids{kTestImEnd, text_end, turn_end, odd}));
  EXPECT_TRUE(tokenizer->is_end_of_generation(text_end));
  EXPECT_FALSE(tokenizer->is_end_of_generation(spelled));
  EXPECT_FALSE(tokenizer->is_end_of_generation(other));
  EXPECT_FALSE(tokenizer->is_end_of_generation(kTestImStart));
}

TEST(Tokenizer, DecodeLeavesControlTokensOutOnRequest) {
  const auto tokenizer = test_tokenizer();
  const Ids ids = {kTestImStart, 'h', 'i', kTestImEnd};
  EXPECT_EQ(tokenizer->decode(ids, true), "hi");
  EXPECT_EQ(tokenizer->decode(ids, false), "<|im_start|>hi<|im_end|>");
}

TEST(Tokenizer, FindGoesByBytesAndPrefersControlTokens) {
  Builder b;
  const TokenId space_a = b.merge("\u0120", "a");
  b.add("<tag>");
  const TokenId tag = b.add("<tag>", TokenKind::kControl);
  const TokenId raw = b.add("two words");  // a space is not in the alphabet: it stands for itself
  const auto tokenizer = b.build();
  EXPECT_EQ(tokenizer->find(" a"), space_a);
  EXPECT_EQ(tokenizer->find("<tag>"), tag);
  EXPECT_EQ(tokenizer->find("two words"), raw);
  EXPECT_EQ(tokenizer->find("nothing"), std::nullopt);
}

TEST(Tokenizer, ThreadsMayEncodeAtOnce) {
  Builder b;
  b.merge("a", "b");
  const auto tokenizer = b.build();
  const std::string text = "ab ab 12 <|im_end|> é ab";
  const Ids expected = tokenizer->encode(text);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) wrong[t] += tokenizer->encode(text) != expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST(Tokenizer, TheEndOfATurnIsAControlTokenWhateverTheFileSays) {
  Builder b;
  const TokenId end = b.add("<|eot_id|>", TokenKind::kNormal);
  const TokenId fill = b.add("<|fim_prefix|>", TokenKind::kUserDefined);
  const TokenId html = b.add("</s>", TokenKind::kUserDefined);
  const auto tokenizer = b.build();
  EXPECT_TRUE(tokenizer->is_special(end));
  EXPECT_TRUE(tokenizer->is_end_of_generation(end));
  EXPECT_TRUE(tokenizer->is_special(fill));
  EXPECT_FALSE(tokenizer->is_special(html)) << "text to the models that call it so";
  EXPECT_EQ(tokenizer->encode("<|eot_id|>", {.parse_special = false}).size(), 10u);
}

TEST(Vocabulary, WhatIsUnknownIsRefusedByName) {
  Builder b;
  b.vocabulary.model = "t5";
  EXPECT_EQ(b.refusal(),
            "tokenizer model 't5' is unknown; known are gpt2 (byte-level BPE), llama "
            "(SentencePiece) and bert (WordPiece)");
  b.vocabulary = test_vocabulary();
  b.vocabulary.pre = "mystery";
  EXPECT_THAT(b.refusal(), HasSubstr("'mystery' is unknown; known are gpt-2"));
}

TEST(Vocabulary, LengthsAndIdsMustFit) {
  Builder b;
  b.vocabulary.kinds.pop_back();
  EXPECT_THAT(b.refusal(), HasSubstr("258 tokens but 257 token types"));
  b.vocabulary = {};
  EXPECT_THAT(b.refusal(), HasSubstr("0 tokens"));
  b.vocabulary = test_vocabulary();
  b.vocabulary.bos = 257;
  EXPECT_NE(b.build(), nullptr);
  b.vocabulary.bos = 258;
  EXPECT_THAT(b.refusal(), HasSubstr("BOS token id is 258; the vocabulary has 258 tokens"));
  b.vocabulary = test_vocabulary();
  b.vocabulary.add_bos = true;
  EXPECT_THAT(b.refusal(), HasSubstr("adds a BOS token but has none"));
}

TEST(Vocabulary, MergesMustBeTwoTexts) {
  for (const char* merge : {"", " ", "ab", "a ", " b", "a  b", "a b c"}) {
    Builder b;
    b.add("ab");
    b.vocabulary.merges = {merge};
    EXPECT_THAT(b.refusal(), HasSubstr("which is not two texts with a space between")) << merge;
  }
}

TEST(Tokenizer, AMergeThatMakesNoTokenEndsAsTheTokensOfItsBytes) {
  Builder b;
  b.vocabulary.merges = {"a b", "b c", "ab d", "\u0120 \u00c3", "#version: 0.2"};
  const TokenId bc = b.add("bc");
  const TokenId abd = b.add("abd");
  const auto tokenizer = b.build();
  EXPECT_EQ(tokenizer->encode("ab"), (Ids{'a', 'b'}));
  EXPECT_EQ(tokenizer->encode("abd"), (Ids{abd})) << "it merges on";
  EXPECT_EQ(tokenizer->encode("abc"), (Ids{'a', 'b', 'c'})) << "the earlier merge went first";
  EXPECT_EQ(tokenizer->encode("bc"), (Ids{bc}));
  EXPECT_EQ(tokenizer->encode(" \u00e9"), (Ids{' ', 0xC3, 0xA9})) << "no byte is lost";
  std::string many;
  for (int i = 0; i < 50; ++i) many += "ab";
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(many), false), many) << "long pieces too";
}

TEST(Tokenizer, AByteWithoutATokenMergesIntoLongerTexts) {
  Builder b;
  b.vocabulary.tokens['c'] = "gone";
  EXPECT_EQ(b.build()->encode("abcb"), (Ids{'a', 'b', 'b'})) << "without a merge it is left out";
  b.vocabulary.merges = {"c b", "a b"};
  const TokenId cb = b.add("cb");
  const TokenId ab = b.add("ab");
  const auto tokenizer = b.build();
  EXPECT_EQ(tokenizer->encode("abcb"), (Ids{ab, cb}));
  EXPECT_EQ(tokenizer->encode("acab"), (Ids{'a', ab}));
}

TEST(Vocabulary, SpecialTextsAreBoundedAndUtf8) {
  Builder b;
  b.add(std::string(512, 'x'), TokenKind::kControl);
  EXPECT_NE(b.build(), nullptr);
  b.add(std::string(513, 'x'), TokenKind::kControl);
  EXPECT_THAT(b.refusal(), HasSubstr("special token 259 has 513 bytes; the limit is 512"));
  Builder bytes;
  bytes.add("\xC3", TokenKind::kControl);  // would match inside of a character
  EXPECT_THAT(bytes.refusal(), HasSubstr("special token 258 is not valid UTF-8"));
  Builder many;
  for (int i = 0; i < 2049; ++i) many.add(std::string(512, 'x'), TokenKind::kUserDefined);
  EXPECT_THAT(many.refusal(), HasSubstr("the limit is 1048576"));
}

TEST(Vocabulary, TextsAreBoundedTogether) {
  Builder b;
  for (int i = 0; i < 63; ++i) b.add(std::string(1 << 20, 'x'));
  EXPECT_NE(b.build(), nullptr);
  b.add(std::string(1 << 20, 'x'));  // with the bytes and the two control tokens, too much
  EXPECT_THAT(b.refusal(), HasSubstr("bytes together; the limit is 67108864"));
}

TEST(Vocabulary, DuplicatesAndEmptyTextsAreTolerated) {
  Builder b;
  b.add("a");  // the byte token 'a' came first
  b.add("", TokenKind::kControl);
  b.add("", TokenKind::kNormal);
  b.add("<|im_end|>", TokenKind::kControl);
  const auto tokenizer = b.build();
  EXPECT_EQ(tokenizer->encode("a<|im_end|>"), (Ids{'a', kTestImEnd}));
}

TEST(TokenizerDeathTest, ATokenOutsideOfTheVocabularyIsOurBug) {
  const auto tokenizer = test_tokenizer();
  EXPECT_DEATH(tokenizer->token_bytes(258), "token 258 of 258");
}

}  // namespace
}  // namespace pacer::text
