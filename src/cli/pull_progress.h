// What a person sees while a model comes, on stderr: one line that grows on a terminal, a line
// every few seconds elsewhere. And Ctrl-C, which ends a pull between two blocks and not in the
// middle.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"

namespace pacer::cli {

// "model.gguf  [########------------]  41 %  38.9 of 94.1 MB  12.3 MB/s  4 s left", at most `width`
// columns wide.
std::string progress_line(const std::string& what, uint64_t done, std::optional<uint64_t> total,
                          double bytes_per_second, size_t width);

class PullProgress {
 public:
  PullProgress();
  ~PullProgress();
  PullProgress(const PullProgress&) = delete;
  PullProgress& operator=(const PullProgress&) = delete;

  // A file, of which `done` bytes will be reported from now on. Not on a terminal, it is announced:
  // there the line itself does that.
  void begin(std::string what, std::optional<uint64_t> total);
  // False after Ctrl-C. Without begin(): only asks that.
  bool update(uint64_t done, std::optional<uint64_t> total);
  void end();  // the line stays as it is
  void say(const std::string& sentence);

  static bool interrupted();

 private:
  void show(uint64_t done, std::optional<uint64_t> total);

  SystemClock clock_;
  bool terminal_;
  std::string what_;
  bool line_open_ = false;
  std::optional<uint64_t> total_;
  std::optional<TimePoint> shown_at_;
  TimePoint begun_{};
  std::optional<uint64_t> done_at_begin_;  // of an earlier try: no part of the speed
  uint64_t done_ = 0;
};

// While it lives, SIGINT and SIGTERM only set what PullProgress::interrupted() says; a second one
// ends the process.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  void (*before_int_)(int);
  void (*before_term_)(int);
};

}  // namespace pacer::cli
