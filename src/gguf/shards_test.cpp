// Split models on disk: whole ones, and each way in which one can be incomplete or mixed up.
#include "gguf/shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <string>

#include "gguf/file.h"
#include "gguf/test_gguf.h"

namespace pacer::gguf {
namespace {

using tensor::DType;
using testing::AllOf;
using testing::HasSubstr;

// A folder for shards, gone at the end of the test.
class SplitModel : public testing::Test {
 protected:
  SplitModel() {
    std::random_device random;
    folder_ = std::filesystem::temp_directory_path() /
              fmt::format("pacer_shards_{}_{}", random(), random());
    std::filesystem::create_directory(folder_);
  }
  ~SplitModel() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::string path(uint64_t shard, uint64_t count = 3) const {
    return (folder_ / fmt::format("m-{:05}-of-{:05}.gguf", shard, count)).string();
  }
  std::string write(const std::string& to, const GgufWriter& writer) const {
    const auto bytes = writer.bytes();
    std::ofstream out(to, std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
    return to;
  }
  // Shard `number` (from 0) with one tensor named t<number>, as gguf-split writes its keys.
  static GgufWriter shard(uint16_t number, uint16_t count = 3, int32_t tensors_total = 3) {
    GgufWriter w;
    if (number == 0) w.add_string("general.architecture", "llama").add_u32("of.the.first", 7);
    w.scalar("split.no", ValueType::kUint16, number);
    w.scalar("split.count", ValueType::kUint16, count);
    w.add_i32("split.tensors.count", tensors_total);
    w.add_tensor(fmt::format("t{}", number), DType::kF32, {2}, {number + 0.5f, 1});
    return w;
  }
  void write_all() const {
    for (uint16_t i = 0; i < 3; ++i) write(path(i + 1), shard(i));
  }
  std::string why() const {
    const auto file = File::open(path(1));
    return file ? "(opened)" : file.error().message;
  }

  std::filesystem::path folder_;
};

TEST_F(SplitModel, TheFirstShardOpensAll) {
  write_all();
  auto opened = File::open(path(1));
  ASSERT_TRUE(opened) << opened.error().message;
  const File file = *std::move(opened);  // moved: spans and views must still point right
  EXPECT_EQ(file.shard_count(), 3u);
  EXPECT_EQ(file.size_bytes(), std::filesystem::file_size(path(1)) +
                                   std::filesystem::file_size(path(2)) +
                                   std::filesystem::file_size(path(3)));
  EXPECT_EQ(*file.require_uint("of.the.first"), 7u);
  ASSERT_EQ(file.tensors().size(), 3u);
  for (int i = 0; i < 3; ++i) {
    const TensorInfo* tensor = file.find_tensor(fmt::format("t{}", i));
    ASSERT_NE(tensor, nullptr) << i;
    float values[2];
    tensor::dequantize(DType::kF32, tensor->data.data(), 2, values);
    EXPECT_EQ(values[0], i + 0.5f);
  }
  file.release_pages();
  EXPECT_EQ(file.find_tensor("t2")->data.size(), 8u);
}

TEST_F(SplitModel, AFirstShardWithoutTensorsIsFine) {
  GgufWriter first;
  first.scalar<uint16_t>("split.no", ValueType::kUint16, 0);
  first.scalar<uint16_t>("split.count", ValueType::kUint16, 2).add_i32("split.tensors.count", 1);
  write(path(1, 2), first);
  write(path(2, 2), shard(1, 2, 1));
  const auto file = File::open(path(1, 2));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->tensors().size(), 1u);
}

TEST_F(SplitModel, AnotherShardThanTheFirstSaysWhichToGive) {
  write_all();
  EXPECT_EQ(File::open(path(2)).error().message,
            fmt::format("{}: this is shard 2 of 3; give the first one, '{}'", path(2), path(1)));
  const std::string renamed = (folder_ / "renamed.gguf").string();
  write(renamed, shard(2));
  EXPECT_EQ(File::open(renamed).error().message,
            renamed + ": this is shard 3 of 3; give the first one");
}

TEST_F(SplitModel, AMissingShardIsNamed) {
  write_all();
  std::filesystem::remove(path(3));
  EXPECT_EQ(why(), fmt::format("{}: shard 3 of 3 is missing: there is no '{}'", path(1), path(3)));
}

TEST_F(SplitModel, AFirstShardUnderAnotherNameCannotFindTheOthers) {
  write_all();
  const std::string renamed = (folder_ / "model.gguf").string();
  std::filesystem::rename(path(1), renamed);
  EXPECT_THAT(File::open(renamed).error().message,
              AllOf(HasSubstr(renamed), HasSubstr("must end in '-00001-of-00003.gguf'")));
}

TEST_F(SplitModel, ShardsOfAnotherModelAreRefusedByName) {
  write_all();
  write(path(2), shard(1, /*count=*/4));
  EXPECT_EQ(why(), path(2) + ": this is shard 2 of 4, where shard 2 of 3 is expected");
  write(path(2), shard(2));
  EXPECT_EQ(why(), path(2) + ": this is shard 3 of 3, where shard 2 of 3 is expected");
  write(path(2), GgufWriter().add_tensor("t1", DType::kF32, {1}, {1}));
  EXPECT_EQ(why(), path(2) + ": this is a whole model, where shard 2 of 3 is expected");
  write(path(2), shard(1, 3, /*tensors_total=*/9));
  EXPECT_THAT(why(), AllOf(HasSubstr(path(2)), HasSubstr("is 9, in the first shard it is 3")));
  write(path(2), shard(1).add_string("general.architecture", "qwen2"));
  EXPECT_EQ(why(), path(2) + ": 'general.architecture' differs from that of the first shard");
  write(path(2), shard(1).add_string("general.architecture", "llama"));
  EXPECT_EQ(why(), "(opened)");
}

TEST_F(SplitModel, TensorsAreCountedAndNoneIsThereTwice) {
  write_all();
  write(path(3), shard(2).add_tensor("t0", DType::kF32, {1}, {1}));
  EXPECT_EQ(why(),
            fmt::format("{}: tensor 't0' is in an earlier shard of {} too", path(3), path(1)));
  write(path(3), shard(2).add_tensor("extra", DType::kF32, {1}, {1}));
  EXPECT_THAT(why(), AllOf(HasSubstr(path(1)), HasSubstr("is 3, but the 3 shards have 4 tensors")));
}

TEST_F(SplitModel, ADamagedShardIsNamedNotTheFirst) {
  write_all();
  std::filesystem::resize_file(path(2), std::filesystem::file_size(path(2)) - 1);
  EXPECT_THAT(why(), AllOf(HasSubstr(path(2) + ": "), HasSubstr("cut short?")));
  std::filesystem::resize_file(path(2), 0);
  EXPECT_THAT(why(), AllOf(HasSubstr(path(2)), HasSubstr("empty")));
  std::filesystem::remove(path(2));
  std::filesystem::create_directory(path(2));
  EXPECT_THAT(why(), HasSubstr("directory"));
}

TEST_F(SplitModel, HostileSplitKeysAreRefused) {
  const auto refusal = [&](auto count, ValueType count_type, std::optional<int32_t> number) {
    GgufWriter w;
    w.scalar("split.count", count_type, count);
    if (number) w.add_i32("split.no", *number);
    write(path(1), w);
    return why();
  };
  EXPECT_THAT(refusal(uint64_t{1} << 63, ValueType::kUint64, 0),
              HasSubstr("split.count is 9223372036854775808; the limit is 4096"));
  EXPECT_THAT(refusal(int32_t{-3}, ValueType::kInt32, 0), HasSubstr("'split.count' must be"));
  EXPECT_THAT(refusal(3.0f, ValueType::kFloat32, 0), HasSubstr("'split.count' must be"));
  EXPECT_THAT(refusal(uint32_t{3}, ValueType::kUint32, -1), HasSubstr("'split.no' must be"));
  EXPECT_THAT(refusal(uint32_t{3}, ValueType::kUint32, 3), HasSubstr("must be below split.count"));
  EXPECT_THAT(refusal(uint32_t{3}, ValueType::kUint32, {}), HasSubstr("split.no is missing"));
  EXPECT_EQ(refusal(uint32_t{1}, ValueType::kUint32, 0), "(opened)");
  EXPECT_EQ(refusal(uint32_t{0}, ValueType::kUint32, {}), "(opened)");
}

TEST(ShardPath, OnlyARightEndingHasSiblings) {
  EXPECT_EQ(shard_path("a/b-00001-of-00012.gguf", 0, 12, 11), "a/b-00012-of-00012.gguf");
  EXPECT_EQ(shard_path("-00002-of-00002.gguf", 1, 2, 0), "-00001-of-00002.gguf");
  for (const char* wrong : {"b-00002-of-00012.gguf", "b-00001-of-00011.gguf", "b-1-of-12.gguf",
                            "b-00001-of-00012.GGUF", "gguf", ""}) {
    EXPECT_EQ(shard_path(wrong, 0, 12, 1), std::nullopt) << wrong;
  }
}

}  // namespace
}  // namespace pacer::gguf
