// libFuzzer entry: any bytes become ids of the vocabulary, in each of the three kinds of
// tokenizers, and well-formed text comes back from those of two.
//
// CONTRIBUTING.md says how to run it; tests/fuzz/text/ is what it starts from, and what ctest
// replays.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "text/test_tokenizer.h"
#include "text/token_text.h"
#include "text/utf8.h"

namespace pacer::text {
namespace {

std::unique_ptr<Tokenizer> make(Vocabulary vocabulary) {
  auto tokenizer = Tokenizer::from_vocabulary(std::move(vocabulary));
  CHECK(tokenizer.ok(), "{}", tokenizer.error().message);
  return *std::move(tokenizer);
}

Vocabulary byte_level(const char* pre) {
  Vocabulary vocabulary = test_vocabulary();
  vocabulary.pre = pre;
  for (const char* merge : {"a a", "aa aa", "a b", "\u0120 a", "\u00c3 \u00a9"}) {
    vocabulary.merges.emplace_back(merge);
    std::string joined(merge);
    joined.erase(joined.find(' '), 1);
    vocabulary.tokens.push_back(joined);
    vocabulary.kinds.push_back(TokenKind::kNormal);
  }
  return vocabulary;
}

// `words` after the 256 byte tokens, each with a worse score than the one before.
Vocabulary by_texts(const char* model, const std::vector<std::string>& words) {
  Vocabulary vocabulary;
  vocabulary.model = model;
  vocabulary.tokens = {"<unk>", "<s>", "</s>"};
  vocabulary.kinds = {TokenKind::kUnknown, TokenKind::kControl, TokenKind::kControl};
  for (unsigned byte = 0; byte < 256; ++byte) {
    vocabulary.tokens.push_back(fmt::format("<0x{:02X}>", byte));
    vocabulary.kinds.push_back(TokenKind::kByte);
  }
  vocabulary.tokens.insert(vocabulary.tokens.end(), words.begin(), words.end());
  vocabulary.kinds.resize(vocabulary.tokens.size(), TokenKind::kNormal);
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    vocabulary.scores.push_back(-static_cast<float>(id));
  }
  vocabulary.unknown = 0;
  vocabulary.bos = 1;
  vocabulary.eos = 2;
  vocabulary.add_bos = true;
  vocabulary.add_space_prefix = vocabulary.lowercase = vocabulary.strip_accents = true;
  return vocabulary;
}

struct Subject {
  std::unique_ptr<Tokenizer> tokenizer;
  bool gives_text_back;
};

std::vector<Subject> make_subjects() {
  std::vector<Subject> subjects;
  for (const char* pre : {"gpt-2", "llama-bpe", "qwen35", "deepseek-llm", "deepseek-coder",
                          "deepseek-v3", "falcon", "tekken", "default"}) {
    subjects.push_back({make(byte_level(pre)), true});
  }
  const std::vector<std::string> words = {
      "\u2581", "\u2581\u2581", "a", "\u2581a", "aa", "aaaa", "b", "ab", "\u00e9", "."};
  subjects.push_back({make(by_texts("llama", words)), true});
  subjects.push_back({make(by_texts("bert", words)), false});
  return subjects;
}

void check(const Subject& subject, std::string_view text, const EncodeOptions& options) {
  const Tokenizer& tokenizer = *subject.tokenizer;
  const std::vector<TokenId> ids = tokenizer.encode(text, options);
  for (const TokenId id : ids) {
    CHECK(id < tokenizer.vocabulary_size(), "id {} of {}", id, tokenizer.vocabulary_size());
  }
  // A text may have U+2581 of its own, which SentencePiece takes for a space.
  const bool is_plain = is_valid_utf8(text) && text.find(kStoredSpace) == std::string_view::npos;
  if (!subject.gives_text_back || !is_plain || options.add_special) return;
  CHECK(tokenizer.decode(ids, false) == text, "{} bytes do not come back", text.size());
}

void check_all(std::string_view text) {
  static const std::vector<Subject> subjects = make_subjects();
  for (const Subject& subject : subjects) {
    check(subject, text, {});
    check(subject, text, {.add_special = false, .parse_special = false});
    check(subject, text, {.add_special = false, .parse_special = true});
  }
}

}  // namespace
}  // namespace pacer::text

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pacer::text::check_all(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
