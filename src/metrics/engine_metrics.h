// What the engine counts, under vLLM's names, labels and bucket bounds, so that existing
// dashboards, autoscalers and gateways work unchanged; and a few of our own under pacer_.
// docs/metrics.md lists them all.
//
// Methods are named after what happened. Each costs a few atomic operations and an uncontended lock
// per histogram, and allocates nothing: every series is looked up in the constructor. Any thread
// may call; scrapes run beside the engine.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"

namespace pacer::metrics {

// One step, and the state after it.
struct StepCounts {
  uint32_t running = 0;  // sequences in the batch
  uint32_t waiting = 0;  // accepted, not in the batch
  uint32_t blocks_used = 0;
  uint32_t blocks_total = 0;
  uint32_t tokens = 0;  // computed in this step: prompt chunks and decodes
  uint32_t prompt_tokens =
      0;  // of those, prompt tokens; a prompt recomputed after preemption is not counted again
  uint32_t output_tokens = 0;  // sampled in this step
  uint32_t preemptions = 0;
};

enum class FinishedReason { kStop, kLength };
enum class RejectedReason { kQueueFull, kTooLong, kShuttingDown };

// One request that ran to its natural end.
struct FinishedRequest {
  FinishedReason reason = FinishedReason::kStop;
  uint32_t prompt_tokens = 0;
  uint32_t output_tokens = 0;
  Duration e2e{};         // arrival to last token
  Duration queue_wait{};  // arrival to first scheduled step
  Duration prefill{};     // first scheduled step to first token
  Duration decode{};      // first token to last token
};

class EngineMetrics {
 public:
  EngineMetrics(std::string model_name, uint32_t max_model_len, uint32_t kv_blocks,
                std::string version);
  ~EngineMetrics();
  EngineMetrics(const EngineMetrics&) = delete;
  EngineMetrics& operator=(const EngineMetrics&) = delete;

  void on_step(const StepCounts& counts);
  // The engine has nothing to do: gauges only.
  void on_idle(const StepCounts& counts);

  void on_first_token(Duration ttft);
  void on_inter_token(Duration gap);
  void on_finished(const FinishedRequest& request);

  void on_rejected(RejectedReason reason);
  void on_cancelled();  // the peer left, or the caller cancelled
  void on_failed();     // our step failed

  // Requests in the batch, as of the last step. Any thread.
  uint32_t running() const;

  // The Prometheus text exposition. stalled_for: how long there has been work without a step being
  // finished, which only the engine knows.
  std::string text(Duration stalled_for) const;

 private:
  struct Series;
  std::unique_ptr<Series> series_;
};

}  // namespace pacer::metrics
