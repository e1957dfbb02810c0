#include "gguf/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "gguf/test_gguf.h"

namespace pacer::gguf {
namespace {

using tensor::DType;
using testing::ElementsAre;
using testing::HasSubstr;

Result<File> open_bytes(const std::vector<std::byte>& bytes) {
  const TempFile file(bytes);
  return File::open(file.path());  // the mapping outlives the name
}

std::string message_of(const Result<File>& file) {
  return file ? "(opened)" : file.error().message;
}

std::vector<float> ramp(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i);
  return values;
}

TEST(GgufFile, EveryValueTypeComesBackWidened) {
  GgufWriter w;
  w.scalar<uint8_t>("u8", ValueType::kUint8, 200).scalar<int8_t>("i8", ValueType::kInt8, -100);
  w.scalar<uint16_t>("u16", ValueType::kUint16, 60000)
      .scalar<int16_t>("i16", ValueType::kInt16, -30000);
  w.add_u32("u32", 4000000000u).add_i32("i32", -2000000000);
  w.add_u64("u64", ~uint64_t{0}).scalar<int64_t>("i64", ValueType::kInt64, INT64_MIN);
  w.add_f32("f32", 0.5f).scalar<double>("f64", ValueType::kFloat64, 0.1);
  w.add_bool("yes", true).add_bool("no", false).add_string("text", "h\xc3\xa9llo");
  auto file = open_bytes(w.bytes());
  ASSERT_TRUE(file) << message_of(file);

  const auto& m = file->metadata();
  EXPECT_EQ(m.at("u8"), Value(uint64_t{200}));
  EXPECT_EQ(m.at("i8"), Value(int64_t{-100}));
  EXPECT_EQ(m.at("u16"), Value(uint64_t{60000}));
  EXPECT_EQ(m.at("i16"), Value(int64_t{-30000}));
  EXPECT_EQ(m.at("u32"), Value(uint64_t{4000000000}));
  EXPECT_EQ(m.at("i32"), Value(int64_t{-2000000000}));
  EXPECT_EQ(m.at("u64"), Value(~uint64_t{0}));
  EXPECT_EQ(m.at("i64"), Value(int64_t{INT64_MIN}));
  EXPECT_EQ(m.at("f32"), Value(0.5));
  EXPECT_EQ(m.at("f64"), Value(0.1));
  EXPECT_EQ(m.at("yes"), Value(true));
  EXPECT_EQ(m.at("no"), Value(false));
  EXPECT_EQ(m.at("text"), Value(std::string_view("h\xc3\xa9llo")));
  EXPECT_EQ(m.size(), 13u);
}

TEST(GgufFile, ArraysHoldOneKind) {
  GgufWriter w;
  w.add_strings("words", {"a", "", "c"}).add_floats("scores", {0.5f, -1.0f});
  w.array<uint8_t>("bytes", ValueType::kUint8, {1, 255})
      .array<uint8_t>("flags", ValueType::kBool, {1, 0});
  w.add_ints("types", {1, 3}).add_ints("signed", {1, -3}).add_ints("none", {});
  auto file = open_bytes(w.bytes());
  ASSERT_TRUE(file) << message_of(file);
  EXPECT_THAT(*file->find_strings("words"), ElementsAre("a", "", "c"));
  EXPECT_THAT(*file->find_floats("scores"), ElementsAre(0.5, -1.0));
  EXPECT_THAT(*file->find_uints("bytes"), ElementsAre(1u, 255u));
  EXPECT_THAT(*file->find_uints("types"), ElementsAre(1u, 3u));  // written as INT32
  EXPECT_EQ(file->metadata().at("signed"), Value(std::vector<int64_t>{1, -3}));
  EXPECT_EQ(file->metadata().at("flags"), Value(std::vector<bool>{true, false}));
  EXPECT_TRUE(file->find_uints("none")->empty());

  EXPECT_EQ(file->find_uints("signed"), nullptr);
  EXPECT_EQ(file->find_floats("words"), nullptr);
  EXPECT_EQ(file->find_strings("absent"), nullptr);
}

TEST(GgufFile, TensorsAreFoundByNameWithTheirData) {
  GgufWriter w;
  w.add_tensor("odd", DType::kF32, {3}, ramp(3));  // 12 bytes: the next one needs padding
  w.add_tensor("matrix", DType::kQ8_0, {32, 2}, ramp(64));
  w.add_tensor("cube", DType::kF16, {2, 3, 4}, ramp(24));
  auto file = open_bytes(w.bytes());
  ASSERT_TRUE(file) << message_of(file);
  ASSERT_EQ(file->tensors().size(), 3u);

  const TensorInfo* matrix = file->find_tensor("matrix");
  ASSERT_NE(matrix, nullptr);
  EXPECT_EQ(matrix->dtype, DType::kQ8_0);
  EXPECT_EQ(matrix->columns(), 32u);
  EXPECT_EQ(matrix->rows(), 2u);
  ASSERT_EQ(matrix->data.size(), 68u);
  std::vector<float> values(64);
  tensor::dequantize(matrix->dtype, matrix->data.data(), 64, values.data());
  EXPECT_NEAR(values[63], 63.0f, 0.3f);

  EXPECT_EQ(file->find_tensor("odd")->rows(), 1u);
  EXPECT_THAT(file->find_tensor("cube")->shape, ElementsAre(2u, 3u, 4u));
  EXPECT_EQ(file->find_tensor("nothing"), nullptr);
}

TEST(GgufFile, TypedMetadataTellsAbsentFromWrong) {
  GgufWriter w;
  w.add_u32("count", 7).add_i32("old", 8).add_i32("negative", -1).add_f32("scale", 2.0f);
  w.add_bool("flag", true).add_string("name", "x");
  auto file = open_bytes(w.bytes());
  ASSERT_TRUE(file) << message_of(file);

  EXPECT_EQ(**file->find_uint("count"), 7u);
  EXPECT_EQ(**file->find_uint("old"), 8u);
  EXPECT_EQ(**file->find_float("scale"), 2.0);
  EXPECT_EQ(**file->find_bool("flag"), true);
  EXPECT_EQ(**file->find_string("name"), "x");
  EXPECT_EQ(*file->require_uint("count"), 7u);
  EXPECT_EQ(*file->require_float("scale"), 2.0);
  EXPECT_EQ(*file->require_string("name"), "x");

  auto absent = file->find_uint("absent");
  ASSERT_TRUE(absent);
  EXPECT_FALSE(absent->has_value());
  EXPECT_THAT(file->find_uint("negative").error().message, HasSubstr("'negative' is -1"));
  EXPECT_THAT(file->find_uint("name").error().message,
              HasSubstr("'name' is a string; it must be an unsigned integer"));
  EXPECT_THAT(file->find_float("count").error().message, HasSubstr("must be a float"));
  EXPECT_THAT(file->require_string("absent").error().message, HasSubstr("'absent' is missing"));
  EXPECT_THAT(file->require_uint("absent").error().message, HasSubstr(file->path()));
}

TEST(GgufFile, BothVersionsOpen) {
  GgufWriter w;
  w.add_u32("a", 1);
  for (uint32_t version : {2u, 3u}) {
    w.version = version;
    auto file = open_bytes(w.bytes());
    ASSERT_TRUE(file) << message_of(file);
    EXPECT_EQ(file->version(), version);
  }
}

TEST(GgufFile, StaysValidWhenMoved) {
  GgufWriter w;
  w.add_string("name", "kept").add_tensor("t", DType::kF32, {2}, {1.0f, 2.0f});
  auto file = open_bytes(w.bytes());
  ASSERT_TRUE(file) << message_of(file);
  const File moved = std::move(*file);
  EXPECT_EQ(*moved.require_string("name"), "kept");
  EXPECT_EQ(moved.find_tensor("t")->data.size(), 8u);
}

TEST(GgufFile, MissingEmptyAndDirectoryAreErrorsWithThePath) {
  const std::string folder = std::filesystem::temp_directory_path().string();
  EXPECT_EQ(File::open(folder + "/no_such_file.gguf").error().code, Code::kNotFound);
  EXPECT_THAT(message_of(File::open(folder + "/no_such_file.gguf")),
              HasSubstr("no_such_file.gguf"));
  EXPECT_THAT(message_of(File::open(folder)), HasSubstr("is a directory"));
  EXPECT_THAT(message_of(open_bytes({})), HasSubstr("is empty"));
}

TEST(GgufFile, ContentErrorsBeginWithThePath) {
  const TempFile file(std::as_bytes(std::span("not a model")));
  EXPECT_THAT(message_of(File::open(file.path())), HasSubstr(file.path() + ": not a GGUF file"));
}

// Every cut of a file on disk is refused with its path: nothing reads behind the end of a mapping.
TEST(GgufFile, EveryCutOfAFileIsRefusedWithItsPath) {
  GgufWriter w;
  w.add_string("general.architecture", "llama").add_strings("words", {"a", "bc"});
  w.add_tensor("t", DType::kQ8_0, {32, 2}, ramp(64)).add_tensor("u", DType::kF32, {3}, ramp(3));
  const std::vector<std::byte> whole = w.bytes();
  const TempFile file(whole);
  ASSERT_TRUE(File::open(file.path()));
  for (size_t size = whole.size(); size-- > 0;) {
    std::filesystem::resize_file(file.path(), size);
    const auto opened = File::open(file.path());
    ASSERT_FALSE(opened) << size;
    EXPECT_THAT(opened.error().message, HasSubstr(file.path())) << size;
  }
}

std::string real_model_path() {
  const auto env = [](const char* name) {
    return std::string(std::getenv(name) ? std::getenv(name) : "");
  };
  std::string folder = env("PACER_MODELS");
  if (folder.empty() && !env("PACER_HOME").empty()) folder = env("PACER_HOME") + "/models";
  if (folder.empty()) folder = env("HOME") + "/.cache/pacer/models";
  return folder + "/SmolLM2-135M-Instruct.Q4_1.gguf";
}

// The model that the project is tested with, when it has been installed.
TEST(GgufFile, TheRealModelOpens) {
  const std::string path = real_model_path();
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "the test model is not installed: " << path;

  auto file = File::open(path);
  ASSERT_TRUE(file) << message_of(file);
  EXPECT_EQ(*file->require_string("general.architecture"), "llama");
  EXPECT_EQ(*file->require_uint("llama.block_count"), 30u);
  EXPECT_EQ(file->find_strings("tokenizer.ggml.tokens")->size(), 49152u);
  const TensorInfo* embedding = file->find_tensor("token_embd.weight");
  ASSERT_NE(embedding, nullptr);
  EXPECT_THAT(embedding->shape, ElementsAre(576u, 49152u));

  // A block of real weights reads as small finite numbers: catches a wrong data start.
  std::vector<float> row(576);
  tensor::dequantize(embedding->dtype, embedding->data.data(), row.size(), row.data());
  for (float v : row) EXPECT_LT(std::abs(v), 10.0f);
}

// A real header is long and has every kind of value: cut in its first pages at every byte, and then
// at 10, 50 and 99 % of the file.
TEST(GgufFile, NoCutOfTheRealModelIsAModel) {
  const std::string path = real_model_path();
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "the test model is not installed: " << path;
  const auto mapped = sys::MappedFile::open(path);
  ASSERT_TRUE(mapped);
  const auto bytes = mapped->bytes();
  for (size_t size = 0; size < 8192; ++size) ASSERT_FALSE(parse(bytes.first(size))) << size;
  for (size_t percent : {10, 50, 99}) {
    const auto cut = parse(bytes.first(bytes.size() * percent / 100));
    ASSERT_FALSE(cut) << percent;
    EXPECT_THAT(cut.error().message, HasSubstr("cut short?"));
  }
}

}  // namespace
}  // namespace pacer::gguf
