#include "base/check.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "base/log.h"

namespace pacer {

namespace {

void print(const std::string& line) {
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace

void check_failed(const char* file, int line, const char* condition,
                  const std::string& message) noexcept {
  const std::string text = log::critical_line(
      fmt::format("{}:{}: CHECK failed: {}: {}", file, line, condition, message));
  // stdio, not the logger: the logger may be what is broken. What was logged before comes first.
  if (log::flush(std::chrono::seconds(1))) {
    print(text);
  } else {
    // Nobody reads stderr, or its lock is held by a thread that waits for it: a try, with an end.
    std::thread(print, text).detach();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  std::abort();
}

}  // namespace pacer
