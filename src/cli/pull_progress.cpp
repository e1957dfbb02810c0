#include "cli/pull_progress.h"

#include <fmt/format.h>
#include <spdlog/details/os.h>  // in_terminal: the OS header behind it belongs to sys and http

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <utility>

namespace pacer::cli {

namespace {

constexpr auto kTerminalEvery = std::chrono::milliseconds(100);
constexpr auto kLogEvery = std::chrono::seconds(5);
constexpr size_t kLineColumns = 79;
constexpr size_t kBarColumns = 20;

std::atomic<int> g_interrupts{0};
static_assert(std::atomic<int>::is_always_lock_free,
              "a signal handler may only touch lock-free atomics");

void count_interrupt(int signal) {
  g_interrupts.fetch_add(1);
  std::signal(signal, SIG_DFL);  // the next one means it
}

double mb(uint64_t bytes) {
  return static_cast<double>(bytes) / 1e6;
}

std::string time_left(double seconds) {
  const auto whole = static_cast<uint64_t>(std::min(seconds, 360'000.0));
  if (whole < 100) return fmt::format("{} s left", whole);
  if (whole < 6000) return fmt::format("{} min left", (whole + 59) / 60);
  return fmt::format("{} h left", (whole + 3599) / 3600);
}

}  // namespace

std::string progress_line(const std::string& what, uint64_t done, std::optional<uint64_t> total,
                          double bytes_per_second, size_t width) {
  std::string figures;
  if (total && *total > 0) {
    const uint64_t have = std::min(done, *total);
    const size_t filled =
        static_cast<size_t>(static_cast<double>(have) * kBarColumns / static_cast<double>(*total));
    figures = fmt::format("  [{}{}] {:3.0f} %  {:.1f} of {:.1f} MB", std::string(filled, '#'),
                          std::string(kBarColumns - filled, '-'),
                          100.0 * static_cast<double>(have) / static_cast<double>(*total), mb(have),
                          mb(*total));
  } else {
    figures = fmt::format("  {:.1f} MB", mb(done));
  }
  if (bytes_per_second > 0) {
    figures += fmt::format("  {:.1f} MB/s", bytes_per_second / 1e6);
    if (total && *total > done) {
      figures += "  " + time_left(static_cast<double>(*total - done) / bytes_per_second);
    }
  }
  if (figures.size() >= width) return figures.substr(0, width);
  // The end of a long name tells more than its beginning: the quantisation, the shard.
  const size_t room = width - figures.size();
  if (what.size() <= room) return what + figures;
  return (room > 3 ? "..." + what.substr(what.size() - (room - 3)) : "") + figures;
}

PullProgress::PullProgress() : terminal_(spdlog::details::os::in_terminal(stderr)) {}

PullProgress::~PullProgress() {
  end();
}

void PullProgress::begin(std::string what, std::optional<uint64_t> total) {
  end();
  what_ = std::move(what);
  begun_ = clock_.now();
  done_at_begin_.reset();
  shown_at_.reset();
  total_ = total;
  done_ = 0;
  if (!terminal_) say(what_ + (total ? fmt::format(" ({:.1f} MB)", mb(*total)) : ""));
}

bool PullProgress::update(uint64_t done, std::optional<uint64_t> total) {
  if (interrupted()) return false;
  if (what_.empty()) return true;
  done_ = done;
  if (total) total_ = total;
  if (!done_at_begin_) done_at_begin_ = done;
  const TimePoint now = clock_.now();
  // Elsewhere than on a terminal the first line comes after a while: what is quick says nothing.
  const TimePoint since = shown_at_.value_or(terminal_ ? TimePoint{} : begun_);
  if (now - since < (terminal_ ? Duration(kTerminalEvery) : Duration(kLogEvery))) return true;
  shown_at_ = now;
  show(done, total_);
  return true;
}

void PullProgress::show(uint64_t done, std::optional<uint64_t> total) {
  const uint64_t base = std::min(done_at_begin_.value_or(0), done);
  const double passed = seconds(clock_.now() - begun_);
  const double speed = passed > 0 ? static_cast<double>(done - base) / passed : 0;
  const std::string line = progress_line(what_, done, total, speed, kLineColumns);
  if (terminal_) {
    fmt::print(stderr, "\r\x1b[K{}", line);
    line_open_ = true;
  } else {
    fmt::print(stderr, "{}\n", line);
  }
  std::fflush(stderr);
}

void PullProgress::end() {
  if (what_.empty()) return;
  if (done_ > 0 && (terminal_ || shown_at_)) show(done_, total_);
  if (std::exchange(line_open_, false)) fmt::print(stderr, "\n");
  what_.clear();
}

void PullProgress::say(const std::string& sentence) {
  if (std::exchange(line_open_, false)) fmt::print(stderr, "\n");
  fmt::print(stderr, "{}\n", sentence);
  std::fflush(stderr);
}

bool PullProgress::interrupted() {
  return g_interrupts.load() > 0;
}

InterruptGuard::InterruptGuard()
    : before_int_(std::signal(SIGINT, count_interrupt)),
      before_term_(std::signal(SIGTERM, count_interrupt)) {}

InterruptGuard::~InterruptGuard() {
  std::signal(SIGINT, before_int_);
  std::signal(SIGTERM, before_term_);
}

}  // namespace pacer::cli
