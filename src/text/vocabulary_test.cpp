#include "text/vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gguf/test_gguf.h"
#include "text/test_tokenizer.h"

namespace pacer::text {
namespace {

using ::testing::HasSubstr;

// The keys of a tokenizer, each of which a test can leave out or replace.
struct Keys {
  std::string model = "gpt2", pre = "gpt-2";
  std::vector<std::string> tokens = test_vocabulary().tokens;
  std::vector<int32_t> types = std::vector<int32_t>(258, 1);
  std::vector<std::string> merges;
  std::function<void(gguf::GgufWriter&)> more = [](gguf::GgufWriter&) {};

  Keys() { types[kTestImStart] = types[kTestImEnd] = 3; }

  Result<std::unique_ptr<Tokenizer>> load() const {
    gguf::GgufWriter writer;
    writer.add_string("tokenizer.ggml.model", model);
    if (!pre.empty()) writer.add_string("tokenizer.ggml.pre", pre);
    if (!tokens.empty()) writer.add_strings("tokenizer.ggml.tokens", tokens);
    if (!types.empty()) writer.add_ints("tokenizer.ggml.token_type", types);
    writer.add_strings("tokenizer.ggml.merges", merges);
    more(writer);
    const gguf::TempFile temp(writer.bytes());
    auto file = gguf::File::open(temp.path());
    if (!file) return file.error();
    return Tokenizer::from_gguf(*file);
  }
  std::string refusal() const {
    const auto tokenizer = load();
    EXPECT_FALSE(tokenizer.ok());
    return tokenizer.ok() ? "" : tokenizer.error().message;
  }
};

TEST(VocabularyFromGguf, MoreTokensThanRowsOfTheEmbeddingAreRefusedByCount) {
  Keys keys;
  const auto with_rows = [](uint64_t rows) {
    return [rows](gguf::GgufWriter& w) {
      w.add_tensor("token_embd.weight", tensor::DType::kF32, {1, rows}, std::vector<float>(rows));
    };
  };
  keys.more = with_rows(258);
  EXPECT_TRUE(keys.load().ok());
  keys.more = with_rows(257);
  EXPECT_THAT(keys.refusal(), HasSubstr("the tokenizer has 258 tokens, the embedding has 257"));
}

TEST(VocabularyFromGguf, ALongListIsRefusedByItsCount) {
  Keys keys;
  keys.tokens.assign((1u << 20) + 1, "");
  keys.types.clear();
  EXPECT_THAT(keys.refusal(), HasSubstr("1048577 tokens; 1 to 1048576 are allowed"));
}

TEST(VocabularyFromGguf, TokensKindsMergesAndIdsAreRead) {
  Keys keys;
  keys.tokens.push_back("ab");
  keys.types.push_back(1);
  keys.merges = {"a b"};
  keys.more = [](gguf::GgufWriter& w) {
    w.add_u32("tokenizer.ggml.bos_token_id", kTestImStart);
    w.add_u32("tokenizer.ggml.eos_token_id", kTestImEnd);
    w.add_bool("tokenizer.ggml.add_bos_token", true);
  };
  const auto tokenizer = keys.load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ((*tokenizer)->encode("ab<|im_end|>"),
            (std::vector<TokenId>{kTestImStart, 258, kTestImEnd}));
  EXPECT_EQ((*tokenizer)->eos(), kTestImEnd);
}

TEST(VocabularyFromGguf, LlamaWantsBosWhereTheFileDoesNotSay) {
  Keys keys;
  keys.more = [](gguf::GgufWriter& w) { w.add_u32("tokenizer.ggml.bos_token_id", kTestImStart); };
  EXPECT_FALSE((*keys.load())->adds_bos());
  keys.pre = "llama-bpe";
  EXPECT_TRUE((*keys.load())->adds_bos());
  keys.more = [](gguf::GgufWriter&) {};
  EXPECT_FALSE((*keys.load())->adds_bos()) << "there is none to add";
}

TEST(VocabularyFromGguf, FilesWithoutAPreTokenizerHaveTheDefaultOne) {
  Keys keys;
  keys.pre = "";
  keys.tokens.push_back("12");
  keys.types.push_back(1);
  keys.merges = {"1 2"};
  const auto tokenizer = keys.load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  // Numbers in threes: 1 2 | 1 2 would merge as one number.
  EXPECT_EQ((*tokenizer)->encode("31212"), (std::vector<TokenId>{'3', 258, 258}));
  EXPECT_EQ((*tokenizer)->encode("0012"), (std::vector<TokenId>{'0', '0', '1', '2'}));
}

// A small SentencePiece vocabulary: <unk>, <s>, </s>, then "▁a" and "a".
struct LlamaKeys : Keys {
  std::vector<float> scores = {0, 0, 0, -1, -2};
  LlamaKeys() {
    model = "llama";
    tokens = {"<unk>", "<s>", "</s>", "\u2581a", "a"};
    types = {2, 3, 3, 1, 1};
    pre.clear();
    more = [this](gguf::GgufWriter& w) { w.add_floats("tokenizer.ggml.scores", scores); };
  }
};

TEST(VocabularyFromGguf, LlamaHasDefaultsWhereTheFileDoesNotSay) {
  LlamaKeys keys;
  auto tokenizer = keys.load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ((*tokenizer)->bos(), 1u);
  EXPECT_EQ((*tokenizer)->eos(), 2u);
  EXPECT_EQ((*tokenizer)->encode("aa?"), (std::vector<TokenId>{1, 3, 4, 0}));
  const auto scores = keys.more;
  keys.more = [&](gguf::GgufWriter& w) {
    scores(w);
    w.add_bool("tokenizer.ggml.add_space_prefix", false);
    w.add_bool("tokenizer.ggml.add_bos_token", false);
    w.add_bool("tokenizer.ggml.add_eos_token", true);
  };
  tokenizer = keys.load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ((*tokenizer)->encode("aa"), (std::vector<TokenId>{4, 4, 2}));
}

TEST(VocabularyFromGguf, ScoresMustBeOneNumberForEachToken) {
  LlamaKeys keys;
  keys.scores.pop_back();
  EXPECT_THAT(keys.refusal(), HasSubstr("5 tokens but 4 scores"));
  keys.scores = {0, 0, 0, std::numeric_limits<float>::quiet_NaN(), 0};
  EXPECT_THAT(keys.refusal(), HasSubstr("the score of token 3 is not a number"));
  keys.more = [](gguf::GgufWriter& w) { w.add_ints("tokenizer.ggml.scores", {0, 0, 0, 0, 0}); };
  EXPECT_THAT(keys.refusal(), HasSubstr("tokenizer.ggml.scores"));
}

TEST(VocabularyFromGguf, WithoutScoresTheLeftmostPairJoins) {
  LlamaKeys keys;
  keys.tokens = {"<unk>", "<s>", "</s>", "\u2581", "a", "b", "c", "ab", "bc"};
  keys.types = {2, 3, 3, 1, 1, 1, 1, 1, 1};
  const auto ids = [&keys](std::vector<float> scores) {
    keys.more = [scores](gguf::GgufWriter& w) {
      if (!scores.empty()) w.add_floats("tokenizer.ggml.scores", scores);
    };
    const auto tokenizer = keys.load();
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    return tokenizer.ok() ? (*tokenizer)->encode("abc") : std::vector<TokenId>{};
  };
  EXPECT_EQ(ids({}), (std::vector<TokenId>{1, 3, 7, 6}));
  EXPECT_EQ(ids({0, 0, 0, 0, 0, 0, 0, -2, -1}), (std::vector<TokenId>{1, 3, 4, 8}));
}

TEST(VocabularyFromGguf, ASmallWordPieceVocabularyLacksBertsDefaults) {
  Keys keys;
  keys.model = "bert";
  keys.pre.clear();
  keys.tokens = {"[UNK]", "[CLS]", "[SEP]", "\u2581a"};
  keys.types = {2, 3, 3, 1};
  EXPECT_THAT(keys.refusal(), HasSubstr("adds a BOS token but has none"));
  keys.more = [](gguf::GgufWriter& w) {
    w.add_u32("tokenizer.ggml.unknown_token_id", 0);
    w.add_u32("tokenizer.ggml.cls_token_id", 1);
    w.add_u32("tokenizer.ggml.seperator_token_id", 2);
  };
  auto tokenizer = keys.load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ((*tokenizer)->encode("A b"), (std::vector<TokenId>{1, 3, 0, 2}));
  keys.tokens.back() = std::string(257, 'a');
  EXPECT_THAT(keys.refusal(), HasSubstr("token 3 has 257 bytes; the limit of WordPiece is 256"));
}

TEST(VocabularyFromGguf, WhatIsMissingOrWrongIsNamed) {
  Keys keys;
  keys.tokens = {};
  EXPECT_THAT(keys.refusal(), HasSubstr("'tokenizer.ggml.tokens' is missing"));
  keys = {};
  keys.types = {};
  keys.more = [](gguf::GgufWriter& w) { w.add_strings("tokenizer.ggml.token_type", {"1"}); };
  EXPECT_THAT(keys.refusal(), HasSubstr("tokenizer.ggml.token_type"));
  keys = {};
  keys.types.pop_back();
  EXPECT_THAT(keys.refusal(), HasSubstr("has 257 entries for 258 tokens"));
  keys = {};
  keys.types[5] = 7;
  EXPECT_THAT(keys.refusal(), HasSubstr("token 5 has type 7; known are 0 to 6"));
  keys = {};
  keys.model = "rwkv";
  EXPECT_THAT(keys.refusal(), HasSubstr("tokenizer model 'rwkv' is unknown"));
}

TEST(VocabularyFromGguf, WithoutTypesAllTokensAreNormal) {
  Keys keys;
  keys.types = {};
  keys.tokens.push_back("<s>");
  const auto tokenizer = keys.load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ((*tokenizer)->kind(258), TokenKind::kNormal);
  EXPECT_EQ((*tokenizer)->encode("<s>"), (std::vector<TokenId>{'<', 's', '>'}));
  EXPECT_TRUE((*tokenizer)->is_special(kTestImEnd)) << "whatever the file says";
}

TEST(VocabularyFromGguf, IdsThatDoNotExistAreAsGoodAsAbsent) {
  Keys keys;
  keys.more = [](gguf::GgufWriter& w) {
    w.add_u32("tokenizer.ggml.bos_token_id", 257);
    w.add_u32("tokenizer.ggml.eos_token_id", 258);
    w.add_u32("tokenizer.ggml.eot_token_id", 0xFFFFFFFF);
    w.add_u64("tokenizer.ggml.unknown_token_id", 1ull << 32);
  };
  auto tokenizer = keys.load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ((*tokenizer)->bos(), 257u);
  EXPECT_EQ((*tokenizer)->eos(), std::nullopt);
  EXPECT_EQ((*tokenizer)->end_of_generation(), (std::vector<TokenId>{kTestImEnd}));

  LlamaKeys llama;
  const auto scores = llama.more;
  llama.more = [&](gguf::GgufWriter& w) {
    scores(w);
    w.add_u32("tokenizer.ggml.bos_token_id", 5);
  };
  tokenizer = llama.load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ((*tokenizer)->bos(), 1u) << "the default";

  keys.more = [](gguf::GgufWriter& w) { w.add_string("tokenizer.ggml.eos_token_id", "2"); };
  EXPECT_THAT(keys.refusal(), HasSubstr("tokenizer.ggml.eos_token_id"));
  keys.more = [](gguf::GgufWriter& w) {
    w.add_u32("tokenizer.ggml.bos_token_id", 258);
    w.add_bool("tokenizer.ggml.add_bos_token", true);
  };
  EXPECT_THAT(keys.refusal(), HasSubstr("adds a BOS token but has none"));
}

}  // namespace
}  // namespace pacer::text
