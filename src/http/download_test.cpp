// The pieces that downloads are made of. Servers that are slow, broken or hostile: tests/pull/.
#include "http/download.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "http/download_part.h"
#include "http/download_sha256.h"
#include "http/download_url.h"

namespace pacer::http {
namespace {

using testing::HasSubstr;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

class Parts : public testing::Test {
 protected:
  Parts() {
    std::random_device random;
    folder_ = std::filesystem::temp_directory_path() /
              fmt::format("pacer_parts_{}_{}", random(), random());
    std::filesystem::create_directory(folder_);
  }
  ~Parts() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  std::string path(const char* name = "model") const { return (folder_ / name).string(); }
  static std::string content(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::filesystem::path folder_;
};

TEST(Sha256, IsWhatTheStandardSays) {  // FIPS 180-4, examples of appendix B
  EXPECT_EQ(sha256_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Sha256 digest;
  digest.update(bytes_of("a"));
  EXPECT_EQ(digest.hex(), sha256_of("a"));  // looking does not end it
  digest.update(bytes_of("bc"));
  EXPECT_EQ(digest.hex(), sha256_of("abc"));
  digest.reset();
  EXPECT_EQ(digest.hex(), sha256_of(""));
}

TEST(Sha256, TextIsOneOnlyWith64HexadecimalDigits) {
  EXPECT_EQ(parse_sha256(sha256_of("x")), sha256_of("x"));
  EXPECT_EQ(parse_sha256(std::string(64, 'F')), std::string(64, 'f'));
  EXPECT_FALSE(parse_sha256(std::string(63, 'f')));
  EXPECT_FALSE(parse_sha256(std::string(65, 'f')));
  EXPECT_FALSE(parse_sha256(std::string(63, 'f') + "g"));
  EXPECT_FALSE(parse_sha256(""));
}

TEST_F(Parts, AFinishedPartTakesItsName) {
  auto part = PartFile::open(path(), "source");
  ASSERT_TRUE(part) << part.error().message;
  ASSERT_TRUE(part->append(bytes_of("hello ")));
  ASSERT_TRUE(part->append(bytes_of("world")));
  EXPECT_FALSE(std::filesystem::exists(path()));
  EXPECT_EQ(part->size(), 11u);
  EXPECT_EQ(part->sha256(), sha256_of("hello world"));
  ASSERT_TRUE(part->finish());
  EXPECT_EQ(content(path()), "hello world");
  EXPECT_EQ(*sha256_of_file(path()), sha256_of("hello world"));
  EXPECT_FALSE(std::filesystem::exists(path() + ".part"));
  EXPECT_FALSE(std::filesystem::exists(path() + ".part.from"));
}

TEST_F(Parts, APartIsTakenUpOnlyForTheSameSource) {
  {
    auto part = PartFile::open(path(), "one");
    ASSERT_TRUE(part->restart("\"etag\""));
    ASSERT_TRUE(part->append(bytes_of("half")));
  }
  {
    const auto again = PartFile::open(path(), "one");
    ASSERT_TRUE(again);
    EXPECT_EQ(again->size(), 4u);
    EXPECT_EQ(again->validator(), "\"etag\"");
    EXPECT_EQ(again->sha256(), sha256_of("half"));
  }
  auto other = PartFile::open(path(), "two");
  ASSERT_TRUE(other);
  EXPECT_EQ(other->size(), 0u);
  EXPECT_EQ(other->validator(), "");
  ASSERT_TRUE(other->append(bytes_of("new")));
  EXPECT_EQ(other->sha256(), sha256_of("new"));
}

TEST_F(Parts, APartOfWhichNobodyKnowsTheSourceIsThrownAway) {
  std::ofstream(path() + ".part") << "what is this";
  EXPECT_EQ(PartFile::open(path(), "one")->size(), 0u);
}

TEST_F(Parts, WhatIsNoFileIsNotWrittenTo) {
  std::filesystem::create_directory(path() + ".part");
  EXPECT_THAT(PartFile::open(path(), "x").error().message, HasSubstr(path() + ".part"));
  std::filesystem::remove(path() + ".part");
  std::ofstream(path("victim")) << "precious";
  std::filesystem::create_symlink(path("victim"), path() + ".part");
  EXPECT_FALSE(PartFile::open(path(), "x"));
  EXPECT_EQ(content(path("victim")), "precious");
  EXPECT_FALSE(PartFile::open((folder_ / "no" / "such").string(), "x"));
}

TEST_F(Parts, OneHolderOfALockAtATime) {
  const auto never = [] { FAIL() << "nobody has it"; };
  auto first = FileLock::acquire(path("lock"), never, [] { return true; });
  ASSERT_TRUE(first) << first.error().message;
  int waits = 0;
  const auto second = FileLock::acquire(
      path("lock"), [&] { ++waits; }, [] { return false; });
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("stopped while waiting"));
  EXPECT_EQ(waits, 1);
  // Freed while the other waits.
  auto held = std::make_unique<FileLock>(*std::move(first));
  const auto third = FileLock::acquire(
      path("lock"), [] {},
      [&] {
        held.reset();
        return true;
      });
  EXPECT_TRUE(third);
}

TEST(DownloadUrl, LinksAreFoundFromTheirPage) {
  const std::string page = "https://user:pw@host/simple/x/";
  EXPECT_EQ(*resolve_url(page, "../../packages/a.whl#sha256=1"),
            "https://user:pw@host/packages/a.whl");
  EXPECT_EQ(*resolve_url(page, "https://other/a.whl"), "https://other/a.whl");
  EXPECT_EQ(*resolve_url(page, ""), page);
  for (const char* wrong : {"file:///etc/passwd", "ftp://host/x", "http://[::bad", "mailto:x@y"}) {
    EXPECT_FALSE(resolve_url(page, wrong).ok()) << wrong;
  }
  EXPECT_FALSE(resolve_url("host/x", "").ok());
  EXPECT_FALSE(resolve_url("file:///x", "").ok());
}

TEST(DownloadUrl, SecretsAreNotShown) {
  EXPECT_EQ(shown_url("https://user:pw@host/a?token=1#f"), "https://host/a");
  EXPECT_EQ(shown_url("not an address user:pw@host/x?token=1"), "host/x");
}

TEST(DownloadUrl, TheFileNameIsDecodedAndNotTrusted) {
  EXPECT_EQ(url_file_name("https://h/a/b%20c.gguf?download=true"), "b c.gguf");
  EXPECT_EQ(url_file_name("https://h/..%2f..%2Fx.gguf"), "../../x.gguf");  // callers check it
  EXPECT_EQ(url_file_name("https://h"), "");
  EXPECT_EQ(url_file_name("no address"), "");
}

TEST(DownloadUrl, EncodingKeepsWhatIsPlain) {
  EXPECT_EQ(percent_encode("a b/ü~._-"), "a%20b%2F%C3%BC~._-");
  EXPECT_EQ(percent_encode("a b/c", true), "a%20b/c");
}

TEST(DownloadUrl, AnOriginIsSchemeHostAndPort) {
  EXPECT_EQ(url_origin("https://User@HOST/x"), "https://host:443");
  EXPECT_EQ(url_origin("http://host:8080"), "http://host:8080");
}

}  // namespace
}  // namespace pacer::http
