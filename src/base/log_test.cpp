// The log as those who read it see it: lines on stderr, caught here in a pipe.
#include "base/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/log_format.h"

namespace pacer {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

// stderr is a small pipe while this lives, and nobody reads it but read().
class StderrPipe {
 public:
  StderrPipe() {
    std::fflush(stderr);
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    reader_ = ends[0];
    saved_ = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    fcntl(reader_, F_SETPIPE_SZ, 4096);
  }
  ~StderrPipe() { restore(); }

  // stderr is again what it was; what the log wrote meanwhile is all in the pipe.
  void restore() {
    if (saved_ < 0) return;
    close(reader_);
    dup2(saved_, STDERR_FILENO);
    close(saved_);
    saved_ = -1;
  }

  // What comes until nothing has come for `quiet`.
  std::string read(std::chrono::milliseconds quiet = milliseconds(50)) const {
    std::string all;
    pollfd wanted{.fd = reader_, .events = POLLIN, .revents = 0};
    while (poll(&wanted, 1, static_cast<int>(quiet.count())) == 1) {
      char buffer[4096];
      const ssize_t count = ::read(reader_, buffer, sizeof buffer);
      if (count <= 0) break;
      all.append(buffer, static_cast<size_t>(count));
    }
    return all;
  }

 private:
  int reader_ = -1;
  int saved_ = -1;
};

// A test must not leave a log behind that has a thread.
class Log : public testing::Test {
 protected:
  void TearDown() override { log::init({}); }
};

std::string json(std::string_view text) {
  std::string out;
  log::append_json_string(out, text);
  return out;
}

TEST(LogFormat, AJsonStringIsValidWhateverIsInIt) {
  EXPECT_EQ(json("plain"), R"("plain")");
  EXPECT_EQ(json("a\"b\\c\n\t\x7f"), R"("a\"b\\c\u000a\u0009\u007f")");
  EXPECT_EQ(json(std::string_view("\0", 1)), R"("\u0000")");
  EXPECT_EQ(json("é世🙂"), "\"é世🙂\"");
  const std::string bad = "\xef\xbf\xbd";
  EXPECT_EQ(json("\xff"), '"' + bad + '"');
  EXPECT_EQ(json("a\xc3"), "\"a" + bad + '"');                             // cut
  EXPECT_EQ(json("\xc0\xaf"), '"' + bad + bad + '"');                      // overlong
  EXPECT_EQ(json("\xed\xa0\x80"), '"' + bad + bad + bad + '"');            // a surrogate
  EXPECT_EQ(json("\xf4\x90\x80\x80"), '"' + bad + bad + bad + bad + '"');  // beyond U+10FFFF
  EXPECT_EQ(json("\xe4\xb8"), '"' + bad + bad + '"');
}

TEST(LogFormat, ATextValueIsQuotedWhereItCouldBeTakenForMore) {
  const auto shown = [](std::string_view value) {
    std::string out;
    log::append_text_value(out, value);
    return out;
  };
  EXPECT_EQ(shown("/v1/completions"), "/v1/completions");
  EXPECT_EQ(shown(""), R"("")");
  EXPECT_EQ(shown("x status=200"), R"("x status=200")");
  EXPECT_EQ(shown("a\"b"), R"("a\"b")");
}

TEST_F(Log, ALineStaysOneLine) {
  StderrPipe pipe;
  log::init({});
  log::info("first\nsecond {}", "\x1b[31m");
  const std::string text = pipe.read();
  pipe.restore();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_NE(text.find("first\\x0asecond \\x1b[31m"), std::string::npos) << text;
}

TEST_F(Log, JsonLinesAreOneObjectEach) {
  StderrPipe pipe;
  log::init({.format = log::Format::kJson});
  log::warn("a \"quoted\"\nline \xff");
  log::Event("request")
      .add("id", "r\"1")
      .add("status", 200)
      .add_ms("e2e_ms", microseconds(1500))
      .write();
  const std::string text = pipe.read();
  pipe.restore();
  const size_t end = text.find('\n');
  const std::string first = text.substr(0, end), second = text.substr(end + 1);
  EXPECT_TRUE(first.starts_with(R"({"time":"20)")) << first;
  EXPECT_TRUE(first.ends_with(
      "Z\",\"level\":\"warn\",\"message\":\"a \\\"quoted\\\"\\u000aline \xef\xbf\xbd\"}"))
      << first;
  EXPECT_TRUE(
      second.ends_with("Z\",\"level\":\"info\",\"message\":\"request\",\"id\":\"r\\\"1\","
                       "\"status\":200,\"e2e_ms\":1.5}\n"))
      << second;
}

TEST_F(Log, AnEventInTextIsNamesAndValues) {
  StderrPipe pipe;
  log::init({});
  log::Event("request")
      .add("id", "r 1")
      .add("status", 200)
      .add_ms("e2e_ms", microseconds(1500))
      .write();
  const std::string text = pipe.read();
  pipe.restore();
  EXPECT_TRUE(text.ends_with("request id=\"r 1\" status=200 e2e_ms=1.5\n")) << text;
}

TEST_F(Log, TheLevelHoldsForEventsToo) {
  StderrPipe pipe;
  log::init({.level = "error"});
  log::warn("not this");
  log::Event("nor this").write();
  log::error("this");
  const std::string text = pipe.read();
  pipe.restore();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_TRUE(text.ends_with("this\n")) << text;
}

// The pipe takes 4 KiB and nobody reads: a log that waited would stop this test for ever.
TEST_F(Log, AReaderWhoStopsReadingStopsNobodyAndLearnsWhatWasDropped) {
  StderrPipe pipe;
  log::init({.asynchronous = true, .queue_lines = 64});
  const uint64_t before = log::dropped_lines();
  const std::string padding(200, '.');
  log::info("line 0 {}", padding);
  ASSERT_TRUE(log::flush(seconds(10)));
  for (int i = 1; i < 1000; ++i) log::info("line {} {}", i, padding);
  EXPECT_FALSE(log::flush(milliseconds(50)));
  EXPECT_GE(log::dropped_lines() - before, 1000u - 64u - 40u);

  const std::string text = pipe.read(milliseconds(300));
  EXPECT_TRUE(log::flush(seconds(10)));
  pipe.restore();
  EXPECT_NE(text.find("line 0 "), std::string::npos);
  EXPECT_NE(text.find("line 999 "), std::string::npos) << "the newest stay";
  EXPECT_EQ(text.find("line 500 "), std::string::npos) << "the oldest go";
  EXPECT_NE(text.find("log lines were dropped"), std::string::npos) << text.substr(0, 2000);
}

TEST_F(Log, FlushWaitsForEveryLine) {
  log::init({.asynchronous = true});
  StderrPipe pipe;
  for (int i = 0; i < 10; ++i) log::info("line {}", i);
  ASSERT_TRUE(log::flush(seconds(10)));
  const std::string text = pipe.read(milliseconds(0));  // without waiting: it is all there
  pipe.restore();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 10) << text;
}

TEST(LogDeathTest, WhatWasLoggedBeforeACheckFailedIsWrittenFirst) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(
      {
        log::init({.asynchronous = true});
        for (int i = 0; i < 100; ++i) log::info("line {}", i);
        CHECK(false, "the end");
      },
      "line 99\n.*CHECK failed: false: the end");
}

TEST(LogDeathTest, ACheckThatFailsEndsTheProgramAlsoWhenNobodyReads) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        StderrPipe pipe;
        log::init({.asynchronous = true, .queue_lines = 8});
        for (int i = 0; i < 1000; ++i) log::info("line {}", i);
        CHECK(false, "the end");
      },
      testing::KilledBySignal(SIGABRT), "");
}

TEST(LogDeathTest, ACheckSpeaksJsonWhereTheLogDoes) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH(
      {
        log::init({.format = log::Format::kJson});
        CHECK(false, "a \"b\"");
      },
      R"("level":"critical","message":".*CHECK failed: false: a \\"b\\""\})");
}

}  // namespace
}  // namespace pacer
