// What comes back for a request: some events with text, the last of which says why it ended.
// Exactly one is last.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/token.h"

namespace pacer::engine {

enum class FinishReason : uint8_t {
  kStop,       // end-of-generation token, or a token or string that the request wants as an end
  kLength,     // max_tokens
  kCancelled,  // the client left
  kError,      // a step failed or the server shuts down: see Finish::error
};

const char* to_string(FinishReason reason);  // "stop", "length", "cancelled", "error"

struct Finish {
  FinishReason reason = FinishReason::kStop;
  uint32_t prompt_tokens = 0;
  uint32_t output_tokens = 0;  // all that were generated, the end-of-generation token included
  std::optional<Error> error;  // with kError

  std::optional<Duration> queue_wait{};  // arrival to first scheduled step, if there was one
  std::optional<Duration> ttft{};        // arrival to first token, if there was one
};

// `text` may lag behind `tokens` (half a character, a possible stop string); all events together
// have all of both.
struct OutputEvent {
  std::string text{};                  // valid UTF-8
  std::vector<SampledToken> tokens{};  // generated since the last event
  std::optional<Finish> finish{};      // set on the last event
  // With prompt_logprobs, and before the first of `tokens` or with it: tokens of the prompt with
  // theirs, in order from the second one (the first has none).
  std::vector<SampledToken> prompt{};
};

// Where a request's events go. Called on the engine thread: hands over quickly, never blocks, and
// calls nothing of the engine but cancel().
class OutputSink {
 public:
  virtual ~OutputSink() = default;
  virtual void on_output(OutputEvent event) = 0;
};

// The engine's end of a request: forwards events and proves that exactly one of them is the last.
class OutputChannel {
 public:
  explicit OutputChannel(std::shared_ptr<OutputSink> sink) : sink_(std::move(sink)) {}
  ~OutputChannel();
  OutputChannel(OutputChannel&& other) noexcept = default;
  OutputChannel& operator=(OutputChannel&& other) = delete;

  void send(OutputEvent event);

 private:
  std::shared_ptr<OutputSink> sink_;  // null once the last event was sent (or moved from)
};

}  // namespace pacer::engine
