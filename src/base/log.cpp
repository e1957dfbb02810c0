// The log's two formats, and the one sink that writes them.
//
// Asynchronous logging is spdlog's: a bounded queue that drops its oldest line when it is full, and
// one thread that writes. What is ours: the notice that lines were dropped, a flush that does not
// wait for ever, and lines that cannot be forged.
#include "base/log.h"

#include <spdlog/async.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "base/log_format.h"

namespace pacer::log {

namespace {

using ThreadPool = spdlog::details::thread_pool;
using Message = spdlog::details::log_msg;

constexpr char kName[] = "pacer";
constexpr char kEventName[] = "pacer-event";  // its payload is what json_line() calls fields

std::atomic<Format> g_format{Format::kText};

std::string_view level_name(spdlog::level::level_enum level) {
  const auto name = spdlog::level::to_string_view(level);
  return level == spdlog::level::warn ? "warn" : std::string_view(name.data(), name.size());
}

std::string message_field(std::string_view message) {
  std::string fields = "\"message\":";
  append_json_string(fields, message);
  return fields;
}

class JsonFormatter final : public spdlog::formatter {
 public:
  void format(const Message& message, spdlog::memory_buf_t& out) override {
    const std::string_view payload(message.payload.data(), message.payload.size());
    const bool event = std::string_view(message.logger_name.data(), message.logger_name.size()) ==
                       std::string_view(kEventName);
    const std::string line = json_line(message.time, level_name(message.level),
                                       event ? std::string(payload) : message_field(payload));
    out.append(line.data(), line.data() + line.size());
  }
  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>();
  }
};

// Used by one thread: the writing one of an asynchronous log, else whoever holds the base's mutex.
class Sink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit Sink(Format format) : format_(format) {
    if (format == Format::kJson) {
      stderr_.set_formatter(std::make_unique<JsonFormatter>());
    } else {
      stderr_.set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%-5l%$ %v");
    }
  }

  void watch(const std::shared_ptr<ThreadPool>& pool) { pool_ = pool; }

  uint64_t flushes() const {
    const std::lock_guard lock(flushed_mutex_);
    return flushes_;
  }
  bool wait_for_flush(uint64_t after, std::chrono::milliseconds within) {
    std::unique_lock lock(flushed_mutex_);
    return flushed_.wait_for(lock, within, [&] { return flushes_ > after; });
  }

 protected:
  void sink_it_(const Message& message) override {
    say_what_was_dropped();
    if (format_ == Format::kJson) return stderr_.log(message);
    const std::string clean =
        one_line(std::string_view(message.payload.data(), message.payload.size()));
    Message copy(message);
    copy.payload = clean;
    stderr_.log(copy);
  }

  void flush_() override {
    say_what_was_dropped();
    stderr_.flush();
    const std::lock_guard lock(flushed_mutex_);
    flushes_ += 1;
    flushed_.notify_all();
  }

 private:
  void say_what_was_dropped() {
    const auto pool = pool_.lock();
    const uint64_t dropped = pool == nullptr ? 0 : pool->overrun_counter();
    if (dropped == said_) return;
    const std::string text =
        fmt::format("{} log lines were dropped: whoever reads stderr is too slow", dropped - said_);
    said_ = dropped;
    stderr_.log(Message(kName, spdlog::level::warn, text));
  }

  const Format format_;
  spdlog::sinks::stderr_color_sink_mt stderr_;
  std::weak_ptr<ThreadPool> pool_;
  uint64_t said_ = 0;

  mutable std::mutex flushed_mutex_;
  std::condition_variable flushed_;
  uint64_t flushes_ = 0;
};

// What init() made; replaced as a whole. Never destroyed: threads may log until the very end.
struct Log {
  std::shared_ptr<Sink> sink;
  std::shared_ptr<ThreadPool> pool;  // null: written by whoever logs
  std::shared_ptr<spdlog::logger> lines, events;
};

std::shared_ptr<Log>& current() {
  static auto* log = new std::shared_ptr<Log>;
  return *log;
}
std::atomic<uint64_t> g_dropped_before{0};  // by logs that were replaced

std::shared_ptr<spdlog::logger> make_logger(const char* name, const Log& log,
                                            spdlog::level::level_enum level) {
  std::shared_ptr<spdlog::logger> logger;
  if (log.pool == nullptr) {
    logger = std::make_shared<spdlog::logger>(name, log.sink);
  } else {
    logger = std::make_shared<spdlog::async_logger>(name, log.sink, log.pool,
                                                    spdlog::async_overflow_policy::overrun_oldest);
  }
  logger->set_level(level);
  return logger;
}

}  // namespace

void init(const Options& options) {
  flush(std::chrono::seconds(1));
  auto log = std::make_shared<Log>();
  log->sink = std::make_shared<Sink>(options.format);
  if (options.asynchronous) {
    log->pool = std::make_shared<ThreadPool>(options.queue_lines, 1);
    log->sink->watch(log->pool);
  }
  const auto level = spdlog::level::from_str(options.level);
  log->lines = make_logger(kName, *log, level);
  log->events = make_logger(kEventName, *log, level);
  g_format.store(options.format);
  if (current() != nullptr && current()->pool != nullptr) {
    g_dropped_before.fetch_add(current()->pool->overrun_counter());
  }
  spdlog::set_default_logger(log->lines);
  current() = std::move(log);
}

bool flush(std::chrono::milliseconds within) {
  const std::shared_ptr<Log> log = current();
  if (log == nullptr || log->pool == nullptr) return true;
  const uint64_t before = log->sink->flushes();
  log->lines->flush();
  return log->sink->wait_for_flush(before, within);
}

uint64_t dropped_lines() {
  const std::shared_ptr<Log> log = current();
  return g_dropped_before.load() +
         (log == nullptr || log->pool == nullptr ? 0 : log->pool->overrun_counter());
}

Event::Event(std::string_view message)
    : line_(g_format.load() == Format::kJson ? message_field(message) : std::string(message)) {}

void Event::begin(std::string_view name) {
  if (g_format.load() == Format::kJson) {
    line_ += ',';
    append_json_string(line_, name);
    line_ += ':';
  } else {
    line_ += ' ';
    line_ += name;
    line_ += '=';
  }
}

Event& Event::add(std::string_view name, std::string_view value) {
  begin(name);
  if (g_format.load() == Format::kJson) {
    append_json_string(line_, value);
  } else {
    append_text_value(line_, value);
  }
  return *this;
}

Event& Event::add(std::string_view name, uint64_t value) {
  begin(name);
  line_ += std::to_string(value);
  return *this;
}

Event& Event::add_ms(std::string_view name, std::chrono::nanoseconds value) {
  begin(name);
  line_ += fmt::format("{:.1f}", static_cast<double>(value.count()) / 1e6);
  return *this;
}

void Event::write() const {
  if (const std::shared_ptr<Log> log = current()) log->events->info("{}", line_);
}

std::string critical_line(std::string_view message) noexcept {
  if (g_format.load() == Format::kText) return one_line(message) + "\n";
  return json_line(std::chrono::system_clock::now(), "critical", message_field(message));
}

}  // namespace pacer::log
