// The engine loop: drain, plan, run, commit, publish.
//
// Single-threaded, with clock and executor passed in, so that the same engine runs in production,
// in deterministic tests and in simulation. Links no model and no kernel. Other threads only
// submit() and cancel(); whoever drives it calls step() from one thread, and sleeps when it returns
// false until the wakeup is called.
//
// A request that submit() accepted gets exactly one last event, whatever happens.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/answer.h"
#include "engine/generate_request.h"
#include "engine/inbox.h"
#include "engine/output_event.h"
#include "metrics/engine_metrics.h"
#include "sched/scheduler.h"
#include "text/tokenizer.h"

namespace pacer::engine {

struct EngineConfig {
  uint32_t max_model_len = 0;  // prompt + output tokens of one request
  uint32_t max_queue = 256;    // requests that may wait beyond those that run
};

class Engine {
 public:
  // Everything passed by reference outlives the engine.
  Engine(EngineConfig config, std::unique_ptr<sched::Scheduler> scheduler,
         sched::Executor& executor, const text::Tokenizer& tokenizer, const Clock& clock,
         metrics::EngineMetrics& metrics);
  ~Engine();  // what still runs ends with an error event

  // --- any thread ---

  // Takes a request in, or says why not: kInvalidArgument (can never be served), kExhausted (queue
  // full), kUnavailable (shutting down). An Error means that the sink will never be called.
  Result<RequestId> submit(GenerateRequest request, std::shared_ptr<OutputSink> sink);
  // The request ends within one step with kCancelled, if it has not ended already.
  void cancel(RequestId id);
  // From now on submit() refuses; what was taken in goes on.
  void stop_admitting() { admitting_.store(false); }

  uint32_t in_flight() const { return in_flight_.load(); }
  // How long there has been work without a step being finished; 0 when idle. The truth behind
  // /ready.
  Duration stalled_for() const;
  const EngineConfig& config() const { return config_; }
  uint32_t in_flight_max() const;
  // Tokens that one request may have, prompt and answer: what context and KV pool both hold.
  uint32_t length_max() const;

  // --- the driving thread ---

  void set_wakeup(std::function<void()> wakeup) { inbox_.set_wakeup(std::move(wakeup)); }
  // One iteration. False: there is nothing to do until the next submit.
  bool step();
  // Ends everything in flight with this error.
  void fail_all(const Error& error);

 private:
  struct Live {  // a request between its acceptance and its last event
    OutputChannel channel;
    Answer answer;
    TimePoint arrived{};
    uint32_t prompt_tokens = 0;
    uint32_t prompt_tokens_run = 0;  // counted once, however often preemption makes them run again
    std::optional<TimePoint> scheduled{};
    std::optional<TimePoint> first_token{};
    TimePoint last_token{};
  };

  void drain_incoming();
  void take_in(Submit submit);
  void note_first_scheduled(const sched::Scheduler::Step& step, TimePoint now);
  metrics::StepCounts count_step(const sched::Scheduler::Step& step);
  uint32_t publish(const sched::Scheduler::Step& step, sched::StepResult result, TimePoint now);
  void note_token_time(Live& live, TimePoint now);
  void fail_step(const sched::Scheduler::Step& step, const Error& error);
  bool runs(RequestId id) const;
  void end(RequestId id, FinishReason reason, OutputEvent event, std::optional<Error> error);
  void deliver();
  void count_end(const Live& live, FinishReason reason);
  void count_state(metrics::StepCounts& counts) const;
  metrics::StepCounts state_counts() const;

  EngineConfig config_;
  std::unique_ptr<sched::Scheduler> scheduler_;
  sched::Executor& executor_;
  const text::Tokenizer& tokenizer_;
  const Clock& clock_;
  metrics::EngineMetrics& metrics_;

  Inbox inbox_;
  std::unordered_map<RequestId, Live> live_;
  std::vector<std::pair<RequestId, OutputEvent>> outbox_;  // of this step, in order
  std::atomic<uint64_t> next_id_{1};
  std::atomic<uint32_t> in_flight_{0};
  std::atomic<bool> admitting_{true};
  std::atomic<TimePoint> last_step_;
  std::atomic<TimePoint> busy_since_;  // when a request last found the engine empty
};

}  // namespace pacer::engine
