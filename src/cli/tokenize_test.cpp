// pacer tokenize as a user runs it, but in this process and with a vocabulary of a few bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "cli/commands.h"
#include "cli/input_file.h"
#include "gguf/test_gguf.h"
#include "text/test_tokenizer.h"

namespace pacer::cli {
namespace {

// A file with a vocabulary, no tensor, and an architecture that nobody has heard of.
gguf::TempFile vocabulary_file(const std::string& model = "gpt2") {
  const text::Vocabulary vocabulary = text::test_vocabulary();
  std::vector<int32_t> types(258, 1);
  types[text::kTestImStart] = types[text::kTestImEnd] = 3;
  gguf::GgufWriter writer;
  writer.add_string("general.architecture", "somethingelse")
      .add_string("tokenizer.ggml.model", model)
      .add_string("tokenizer.ggml.pre", "gpt-2")
      .add_strings("tokenizer.ggml.tokens", vocabulary.tokens)
      .add_ints("tokenizer.ggml.token_type", types)
      .add_strings("tokenizer.ggml.merges", {})
      .add_u32("tokenizer.ggml.bos_token_id", text::kTestImStart)
      .add_bool("tokenizer.ggml.add_bos_token", true);
  return gguf::TempFile(writer.bytes());
}

gguf::TempFile text_file(std::string_view text) {
  return gguf::TempFile(std::as_bytes(std::span(text.data(), text.size())));
}

struct Outcome {
  int exit_code = 0;
  std::string output, messages;
};

Outcome tokenize(const std::string& model, std::string_view text,
                 std::vector<std::string> flags = {}) {
  const gguf::TempFile file = text_file(text);
  static const bool logs_to_stderr = (log::init({.level = "error"}), true);  // once in a process
  EXPECT_TRUE(logs_to_stderr);
  Outcome outcome;
  CLI::App app;
  add_tokenize(app, &outcome.exit_code);
  std::vector<std::string> arguments = {"tokenize", "-m", model, "-f", file.path()};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  app.parse(arguments);
  outcome.output = ::testing::internal::GetCapturedStdout();
  outcome.messages = ::testing::internal::GetCapturedStderr();
  return outcome;
}

TEST(Tokenize, IdsAreSeparatedBySpacesAndTheFileIsTakenByteForByte) {
  const gguf::TempFile model = vocabulary_file();
  EXPECT_EQ(tokenize(model.path(), "hi\n").output, "256 104 105 10\n");
  EXPECT_EQ(tokenize(model.path(), "\r\n").output, "256 13 10\n");
  EXPECT_EQ(tokenize(model.path(), std::string_view("a\0", 2)).output, "256 97 0\n");
  EXPECT_EQ(tokenize(model.path(), "").output, "256\n");
}

TEST(Tokenize, NoSpecialMeansNoBosAndNoControlTokens) {
  const gguf::TempFile model = vocabulary_file();
  EXPECT_EQ(tokenize(model.path(), "a<|im_end|>").output, "256 97 257\n");
  EXPECT_EQ(tokenize(model.path(), "<|im", {"--no-special"}).output, "60 124 105 109\n");
  EXPECT_EQ(tokenize(model.path(), "<|im_end|>", {"--no-special"}).output,
            "60 124 105 109 95 101 110 100 124 62\n");
  EXPECT_EQ(tokenize(model.path(), "", {"--no-special"}).output, "\n");
}

TEST(Tokenize, JsonlIsOneStringInAndOneArrayOutForEachLine) {
  const gguf::TempFile model = vocabulary_file();
  EXPECT_EQ(tokenize(model.path(), "\"a\\n\"\n\"\"\n\"\\u00e9\"\n", {"--jsonl"}).output,
            "[256,97,10]\n[256]\n[256,195,169]\n");
  EXPECT_EQ(tokenize(model.path(), "\"a\"", {"--jsonl", "--no-special"}).output, "[97]\n")
      << "the last line needs no end";
  EXPECT_EQ(tokenize(model.path(), "", {"--jsonl"}).output, "");
}

TEST(Tokenize, ALineThatIsNoStringEndsTheRun) {
  const gguf::TempFile model = vocabulary_file();
  for (const char* line :
       {"a", "1", "[\"a\"]", "\"a", "\"a\" \"b\"", "", "\"\\ud800\"", "\"\xFF\""}) {
    const Outcome outcome =
        tokenize(model.path(), std::string("\"a\"\n") + line + "\n\"b\"\n", {"--jsonl"});
    EXPECT_EQ(outcome.exit_code, EXIT_FAILURE) << line;
    EXPECT_EQ(outcome.output, "[256,97]\n") << line;
    EXPECT_NE(outcome.messages.find("line 2 is no JSON string"), std::string::npos) << line;
  }
}

TEST(InputFile, IsReadWholeOrRefusedAtTheLimit) {
  const gguf::TempFile file = text_file(std::string_view("a\0bc\n", 5));
  const auto text = read_input(file.path(), 5);
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_EQ(*text, std::string("a\0bc\n", 5));
  const auto longer = read_input(file.path(), 4);
  ASSERT_FALSE(longer.ok());
  EXPECT_EQ(longer.error().code, Code::kTooLarge);
  EXPECT_EQ(longer.error().message, file.path() + " has more than 4 B, which is the limit");
}

TEST(Tokenize, WhatCannotBeReadFails) {
  const gguf::TempFile model = vocabulary_file();
  EXPECT_EQ(tokenize("/nowhere.gguf", "a").exit_code, EXIT_FAILURE);
  const gguf::TempFile unknown = vocabulary_file("t5");
  EXPECT_EQ(tokenize(unknown.path(), "a").exit_code, EXIT_FAILURE);
  EXPECT_EQ(tokenize(model.path(), "a").exit_code, EXIT_SUCCESS);
}

}  // namespace
}  // namespace pacer::cli
