#include "engine/output_event.h"

#include <utility>

#include "base/check.h"

namespace pacer::engine {

const char* to_string(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      return "error";
  }
  CHECK(false, "finish reason {}", static_cast<int>(reason));
}

OutputChannel::~OutputChannel() {
  CHECK(sink_ == nullptr, "a request ends without its last event");
}

void OutputChannel::send(OutputEvent event) {
  CHECK(sink_ != nullptr, "an event after the last one");
  if (event.finish) {
    // Let go first: the sink may be gone as soon as it has seen its last event.
    const std::shared_ptr<OutputSink> sink = std::exchange(sink_, nullptr);
    sink->on_output(std::move(event));
  } else {
    sink_->on_output(std::move(event));
  }
}

}  // namespace pacer::engine
