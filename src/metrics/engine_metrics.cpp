#include "metrics/engine_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <atomic>

namespace pacer::metrics {
namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Labels;
using Bounds = Histogram::BucketBoundaries;

constexpr uint32_t kBlockTokens = 16;  // tokens of a KV block; metrics/ may not include kv/

// vLLM's bounds, to the digit: dashboards and alerts name buckets.
const Bounds kTtftSeconds = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                             1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
const Bounds kTokenSeconds = {.01, .025, .05, .075, .1,  .15, .2, .3, .4, .5,
                              .75, 1,    2.5, 5,    7.5, 10,  20, 40, 80};
const Bounds kRequestSeconds = {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
const Bounds kIterationTokens = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};

// 1, 2, 5, 10, ... up to `max`, as vLLM builds them.
Bounds one_two_five(uint32_t max) {
  Bounds bounds;
  for (double decade = 1;; decade *= 10) {
    for (const double mantissa : {1.0, 2.0, 5.0}) {
      if (mantissa * decade > max) return bounds;
      bounds.push_back(mantissa * decade);
    }
  }
}

// One registry and the labels that every series carries.
class Builder {
 public:
  Builder(prometheus::Registry& registry, Labels labels)
      : registry_(registry), labels_(std::move(labels)) {}

  Counter& counter(const char* name, const char* help, const Labels& more = {}) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry_).Add(with(more));
  }
  Gauge& gauge(const char* name, const char* help, const Labels& more = {}) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry_).Add(with(more));
  }
  Histogram& histogram(const char* name, const char* help, const Bounds& bounds) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry_).Add(labels_,
                                                                                      bounds);
  }

  Counter& success(const char* finished_reason) {
    return counter("vllm:request_success_total", "Requests by how they ended.",
                   {{"finished_reason", finished_reason}});
  }
  Counter& rejected(const char* reason) {
    return counter("pacer_requests_rejected_total", "Requests refused at the door, by reason.",
                   {{"reason", reason}});
  }

 private:
  Labels with(Labels more) const {
    more.insert(labels_.begin(), labels_.end());
    return more;
  }

  prometheus::Registry& registry_;
  const Labels labels_;
};

}  // namespace

// Registers every series as it is constructed; references stay valid as long as the registry.
struct EngineMetrics::Series {
  prometheus::Registry registry;  // first: the series live in it
  Builder b;
  const Bounds request_tokens;

  Gauge& running = b.gauge("vllm:num_requests_running", "Requests in the batch.");
  Gauge& waiting = b.gauge("vllm:num_requests_waiting", "Requests accepted and not in the batch.");
  Gauge& kv_usage = b.gauge("vllm:kv_cache_usage_perc", "KV blocks in use / KV blocks, 0 to 1.");
  Counter& preemptions = b.counter("vllm:num_preemptions_total", "Sequences put back to wait.");
  Counter& prompt_tokens = b.counter("vllm:prompt_tokens_total", "Prompt tokens computed.");
  Counter& generation_tokens = b.counter("vllm:generation_tokens_total", "Tokens generated.");
  Histogram& iteration_tokens = b.histogram(
      "vllm:iteration_tokens_total", "Tokens computed in one engine step.", kIterationTokens);

  Counter& success_stop = b.success("stop");
  Counter& success_length = b.success("length");
  Counter& success_abort = b.success("abort");
  Counter& success_error = b.success("error");
  Histogram& ttft = b.histogram("vllm:time_to_first_token_seconds",
                                "Arrival of a request to its first token.", kTtftSeconds);
  Histogram& itl = b.histogram("vllm:inter_token_latency_seconds",
                               "Each gap between two tokens of a request.", kTokenSeconds);
  Histogram& tpot = b.histogram("vllm:request_time_per_output_token_seconds",
                                "Per request: the mean gap after its first token.", kTokenSeconds);
  Histogram& e2e = b.histogram("vllm:e2e_request_latency_seconds",
                               "Arrival of a request to its last token.", kRequestSeconds);
  Histogram& queue_wait = b.histogram("vllm:request_queue_time_seconds",
                                      "Arrival to first scheduled step.", kRequestSeconds);
  Histogram& prefill = b.histogram("vllm:request_prefill_time_seconds",
                                   "First scheduled step to first token.", kRequestSeconds);
  Histogram& decode = b.histogram("vllm:request_decode_time_seconds", "First token to last token.",
                                  kRequestSeconds);
  Histogram& request_prompt_tokens = b.histogram(
      "vllm:request_prompt_tokens", "Prompt tokens of a finished request.", request_tokens);
  Histogram& request_generation_tokens = b.histogram(
      "vllm:request_generation_tokens", "Tokens generated for a finished request.", request_tokens);

  Counter& cancelled = b.counter("pacer_requests_cancelled_total",
                                 "Requests whose peer left or that were cancelled.");
  Counter& failed = b.counter("pacer_requests_failed_total", "Requests ended by an error of ours.");
  Counter& rejected_queue_full = b.rejected("queue_full");
  Counter& rejected_too_long = b.rejected("too_long");
  Counter& rejected_shutting_down = b.rejected("shutting_down");
  Gauge& step_age = b.gauge("pacer_last_step_age_seconds",
                            "Work without a finished step for so long; 0 when idle.");

  Series(std::string model_name, uint32_t max_model_len)
      : b(registry, {{"model_name", std::move(model_name)}, {"engine", "0"}}),
        request_tokens(one_two_five(max_model_len)) {}

  void set_gauges(const StepCounts& counts) {
    running.Set(counts.running);
    waiting.Set(counts.waiting);
    kv_usage.Set(counts.blocks_total == 0
                     ? 0.0
                     : static_cast<double>(counts.blocks_used) / counts.blocks_total);
  }
};

EngineMetrics::EngineMetrics(std::string model_name, uint32_t max_model_len, uint32_t kv_blocks,
                             std::string version)
    : series_(std::make_unique<Series>(std::move(model_name), max_model_len)) {
  Builder& b = series_->b;
  b.gauge("vllm:cache_config_info", "The KV cache's settings, as labels.",
          {{"block_size", std::to_string(kBlockTokens)},
           {"num_gpu_blocks", std::to_string(kv_blocks)}})
      .Set(1);
  b.gauge("pacer_build_info", "The version that runs, as a label.",
          {{"version", std::move(version)}})
      .Set(1);
}

EngineMetrics::~EngineMetrics() = default;

void EngineMetrics::on_step(const StepCounts& counts) {
  Series& s = *series_;
  s.set_gauges(counts);
  s.iteration_tokens.Observe(counts.tokens);
  s.prompt_tokens.Increment(counts.prompt_tokens);
  s.generation_tokens.Increment(counts.output_tokens);
  s.preemptions.Increment(counts.preemptions);
}

void EngineMetrics::on_idle(const StepCounts& counts) {
  series_->set_gauges(counts);
}

void EngineMetrics::on_first_token(Duration ttft) {
  series_->ttft.Observe(seconds(ttft));
}
void EngineMetrics::on_inter_token(Duration gap) {
  series_->itl.Observe(seconds(gap));
}

void EngineMetrics::on_finished(const FinishedRequest& request) {
  Series& s = *series_;
  switch (request.reason) {
    case FinishedReason::kStop:
      s.success_stop.Increment();
      break;
    case FinishedReason::kLength:
      s.success_length.Increment();
      break;
  }
  s.e2e.Observe(seconds(request.e2e));
  s.queue_wait.Observe(seconds(request.queue_wait));
  s.prefill.Observe(seconds(request.prefill));
  s.decode.Observe(seconds(request.decode));
  if (request.output_tokens > 1) {
    s.tpot.Observe(seconds(request.decode) / (request.output_tokens - 1));
  }
  s.request_prompt_tokens.Observe(request.prompt_tokens);
  s.request_generation_tokens.Observe(request.output_tokens);
}

void EngineMetrics::on_rejected(RejectedReason reason) {
  switch (reason) {
    case RejectedReason::kQueueFull:
      return series_->rejected_queue_full.Increment();
    case RejectedReason::kTooLong:
      return series_->rejected_too_long.Increment();
    case RejectedReason::kShuttingDown:
      return series_->rejected_shutting_down.Increment();
  }
}

void EngineMetrics::on_cancelled() {
  series_->cancelled.Increment();
  series_->success_abort.Increment();  // where vLLM's dashboards look for it
}

void EngineMetrics::on_failed() {
  series_->failed.Increment();
  series_->success_error.Increment();
}

uint32_t EngineMetrics::running() const {
  return static_cast<uint32_t>(series_->running.Value());
}

std::string EngineMetrics::text(Duration stalled_for) const {
  series_->step_age.Set(seconds(stalled_for));
  return prometheus::TextSerializer().Serialize(series_->registry.Collect());
}

}  // namespace pacer::metrics
