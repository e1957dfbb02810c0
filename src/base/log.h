// The program's log: spdlog behind one name, so that a log line is `log::info("loaded {} in {}",
// ...)`.
//
// Goes to stderr, as text or as one JSON object a line. A server logs asynchronously: a thread of
// its own writes, and where whoever reads stderr is too slow the oldest lines are dropped and
// counted; who logs never waits. Never called on the step path with arguments that must be
// formatted: count there instead. Never given the text of a prompt or an answer, nor an API key.
#pragma once

#include <spdlog/spdlog.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace pacer::log {

using spdlog::debug;
using spdlog::error;
using spdlog::info;
using spdlog::warn;

enum class Format : uint8_t { kText, kJson };

struct Options {
  std::string level = "info";  // "debug" | "info" | "warn" | "error" | "off"
  Format format = Format::kText;
  bool asynchronous = false;
  size_t queue_lines = 4096;  // with `asynchronous`: lines that may wait to be written
};

// Before there are other threads, or while none of them logs; a second call replaces the first.
void init(const Options& options);

// Waits until every line so far is written. False: it took longer than `within` (a pipe that
// nobody reads). Always true for a log that is not asynchronous.
bool flush(std::chrono::milliseconds within);

// Lines that were dropped since the program started.
uint64_t dropped_lines();

// One line with named values, "request id=r-1 status=200" or {"message":"request","id":"r-1",
// "status":200}, at level info.
class Event {
 public:
  explicit Event(std::string_view message);
  Event& add(std::string_view name, std::string_view value);
  Event& add(std::string_view name, uint64_t value);
  Event& add_ms(std::string_view name, std::chrono::nanoseconds value);
  void write() const;

 private:
  void begin(std::string_view name);
  std::string line_;
};

// For check.cpp, which writes by itself: the message as a whole line in the log's format.
std::string critical_line(std::string_view message) noexcept;

}  // namespace pacer::log
