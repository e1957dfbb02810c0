#include "sys/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

namespace pacer::sys {
namespace {

// A directory of its own for each test, gone afterwards.
class MappedFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "pacer_mapped_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& content) {
    const std::string path = (folder_ / name).string();
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

  std::filesystem::path folder_;
};

std::string text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST_F(MappedFileTest, ShowsTheBytesOfTheFile) {
  auto file = MappedFile::open(write("a", "hello\0world"));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(text_of(*file), std::string("hello\0world"));
}

TEST_F(MappedFileTest, StaysReadableAfterRelease) {
  const std::string content(100'000, 'x');
  auto file = MappedFile::open(write("a", content));
  ASSERT_TRUE(file) << file.error().message;
  file->release();
  EXPECT_EQ(text_of(*file), content);
}

TEST_F(MappedFileTest, MovingHandsOverTheMapping) {
  auto first = MappedFile::open(write("a", "first"));
  auto second = MappedFile::open(write("b", "second"));
  ASSERT_TRUE(first && second);
  MappedFile moved = std::move(*first);
  EXPECT_TRUE(first->bytes().empty());
  EXPECT_EQ(text_of(moved), "first");
  moved = std::move(*second);
  EXPECT_TRUE(second->bytes().empty());
  EXPECT_EQ(text_of(moved), "second");
}

TEST_F(MappedFileTest, StaysReadableAfterTheFileIsDeleted) {
  const std::string path = write("a", "still here");
  auto file = MappedFile::open(path);
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_TRUE(std::filesystem::remove(path));
  EXPECT_EQ(text_of(*file), "still here");
}

TEST_F(MappedFileTest, MissingFileIsNotFoundAndNamed) {
  auto file = MappedFile::open((folder_ / "nowhere").string());
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, Code::kNotFound);
  EXPECT_NE(file.error().message.find("nowhere"), std::string::npos);
}

TEST_F(MappedFileTest, RefusesAnEmptyFile) {
  auto file = MappedFile::open(write("empty", ""));
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, Code::kBadFile);
  EXPECT_NE(file.error().message.find("is empty"), std::string::npos);
}

TEST_F(MappedFileTest, RefusesADirectory) {
  auto file = MappedFile::open(folder_.string());
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, Code::kBadFile);
  EXPECT_NE(file.error().message.find("is a directory"), std::string::npos);
}

TEST_F(MappedFileTest, RefusesAPipeWithoutWaitingForAWriter) {
  const std::string path = (folder_ / "pipe").string();
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  auto file = MappedFile::open(path);
  ASSERT_FALSE(file);
  EXPECT_NE(file.error().message.find("not a regular file"), std::string::npos);
}

}  // namespace
}  // namespace pacer::sys
