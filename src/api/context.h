// What every endpoint may use, passed as an argument: the engine, the model's text side, the clock.
//
// Made by cli/ after the model is loaded, before the server starts; outlives both. Handlers run on
// several I/O threads at once: what is not const here is atomic or locks for itself.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <string>

#include "api/auth.h"
#include "api/field_rules.h"
#include "api/io_timer.h"
#include "api/random_source.h"
#include "base/clock.h"
#include "engine/engine.h"
#include "metrics/engine_metrics.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace pacer::api {

struct ApiContext {
  engine::Engine& engine;
  const text::Tokenizer& tokenizer;
  const text::ChatTemplate& chat_template;
  metrics::EngineMetrics& metrics;
  const Clock& clock;

  std::string model_name;  // as requests and answers say it
  std::string version;     // of this program
  ApiKeys keys{};          // none: everybody may

  // Wall time without asking the machine: what it was when clock.now() was `started`.
  int64_t started_unix_s = 0;
  TimePoint started{};

  // The longest token; see longest_token_bytes(). A text of n bytes has at least n / this tokens.
  uint32_t token_bytes_max = std::numeric_limits<uint32_t>::max();

  Duration ping_every = std::chrono::seconds(10);     // silence on a stream before a comment ping
  Duration stalled_after = std::chrono::seconds(10);  // work, but no finished step: not ready

  IoTimer io{};
  RandomSource random{};
  FieldWarnings field_warnings{};
  std::atomic<bool> draining{false};  // set on the first SIGTERM, with engine.stop_admitting()

  int64_t unix_now_s() const {
    return started_unix_s +
           std::chrono::duration_cast<std::chrono::seconds>(clock.now() - started).count();
  }
};

// For ApiContext::token_bytes_max: walks the vocabulary, once at start.
inline uint32_t longest_token_bytes(const text::Tokenizer& tokenizer) {
  size_t longest = 1;
  for (TokenId id = 0; id < tokenizer.vocabulary_size(); ++id) {
    longest = std::max(longest, tokenizer.token_bytes(id).size());
  }
  return static_cast<uint32_t>(longest);
}

}  // namespace pacer::api
