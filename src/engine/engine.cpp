#include "engine/engine.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"

namespace pacer::engine {

namespace {

RequestId request_of(sched::SeqId id) {
  return RequestId{sched::value(id)};
}
sched::SeqId sequence_of(RequestId id) {
  return sched::SeqId{static_cast<uint64_t>(id)};
}

}  // namespace

Engine::Engine(EngineConfig config, std::unique_ptr<sched::Scheduler> scheduler,
               sched::Executor& executor, const text::Tokenizer& tokenizer, const Clock& clock,
               metrics::EngineMetrics& metrics)
    : config_(config),
      scheduler_(std::move(scheduler)),
      executor_(executor),
      tokenizer_(tokenizer),
      clock_(clock),
      metrics_(metrics),
      last_step_(clock.now()),
      busy_since_(clock.now()) {}

Engine::~Engine() {
  stop_admitting();
  fail_all(error(Code::kUnavailable, "the server shut down"));
}

uint32_t Engine::in_flight_max() const {
  return scheduler_->config().running_max + config_.max_queue;
}

uint32_t Engine::length_max() const {
  return std::min(config_.max_model_len, scheduler_->block_count() * kv::kBlockTokens);
}

Result<RequestId> Engine::submit(GenerateRequest request, std::shared_ptr<OutputSink> sink) {
  CHECK(!request.prompt.empty() && request.max_tokens > 0,
        "request '{}': {} prompt tokens, max_tokens {}", request.name, request.prompt.size(),
        request.max_tokens);
  if (!admitting_.load()) {
    metrics_.on_rejected(metrics::RejectedReason::kShuttingDown);
    return error(Code::kUnavailable, "the server is shutting down");
  }
  const uint64_t length_max = request.prompt.size() + request.max_tokens;
  if (length_max > config_.max_model_len) {
    metrics_.on_rejected(metrics::RejectedReason::kTooLong);
    return error(Code::kInvalidArgument,
                 "{} prompt tokens + max_tokens {} = {} tokens, but the context holds {}",
                 request.prompt.size(), request.max_tokens, length_max, config_.max_model_len);
  }
  if (!scheduler_->fits(static_cast<uint32_t>(length_max))) {
    metrics_.on_rejected(metrics::RejectedReason::kTooLong);
    return error(Code::kInvalidArgument,
                 "{} prompt tokens + max_tokens {} = {} tokens, but the KV cache holds {}",
                 request.prompt.size(), request.max_tokens, length_max,
                 scheduler_->block_count() * kv::kBlockTokens);
  }
  // Count first, then look: two threads at the limit cannot both slip in.
  const uint32_t before = in_flight_.fetch_add(1);
  if (before >= in_flight_max()) {
    in_flight_.fetch_sub(1);
    metrics_.on_rejected(metrics::RejectedReason::kQueueFull);
    return error(Code::kExhausted, "the queue is full: {} requests are in flight, {} may be",
                 in_flight_max(), in_flight_max());
  }
  if (before == 0) busy_since_.store(clock_.now());
  const RequestId id{next_id_.fetch_add(1)};
  inbox_.push(Submit{id, std::move(request), std::move(sink)});
  return id;
}

Duration Engine::stalled_for() const {
  if (in_flight_.load() == 0) return Duration{};
  // An engine that slept has an old last step: what counts is since there is work.
  return clock_.now() - std::max(last_step_.load(), busy_since_.load());
}

void Engine::cancel(RequestId id) {
  inbox_.push(Cancel{id});
}

bool Engine::step() {
  drain_incoming();
  const sched::Scheduler::Step step = scheduler_->plan(clock_.now());
  if (step.empty()) {
    last_step_.store(clock_.now());
    metrics_.on_idle(state_counts());
    return false;
  }
  note_first_scheduled(step, clock_.now());
  metrics::StepCounts counts = count_step(step);

  Result<sched::StepResult> result = executor_.run(step.items);

  const TimePoint now = clock_.now();
  if (result) {
    counts.output_tokens = static_cast<uint32_t>(result->tokens.size());
    scheduler_->commit(step, *result);
    publish(step, *std::move(result), now);
  } else {
    fail_step(step, result.error());
  }
  last_step_.store(now);
  const metrics::StepCounts state = state_counts();  // after the step: what finished is gone
  counts.running = state.running;
  counts.waiting = state.waiting;
  counts.blocks_used = state.blocks_used;
  counts.blocks_total = state.blocks_total;
  metrics_.on_step(counts, now);
  return true;
}

void Engine::drain_incoming() {
  for (Command& command : inbox_.drain()) {
    if (auto* submit = std::get_if<Submit>(&command)) {
      take_in(std::move(*submit));
    } else {
      const RequestId id = std::get<Cancel>(command).id;
      if (live_.contains(id)) end(id, FinishReason::kCancelled, {}, std::nullopt);
    }
  }
}

void Engine::take_in(Submit submit) {
  GenerateRequest& request = submit.request;
  live_.emplace(submit.id, Live{.channel = OutputChannel(std::move(submit.sink)),
                                .answer = Answer(request, tokenizer_),
                                .arrived = request.arrived,
                                .prompt_tokens = static_cast<uint32_t>(request.prompt.size())});
  sched::Sequence sequence;
  sequence.id = sequence_of(submit.id);
  sequence.prompt_length = static_cast<uint32_t>(request.prompt.size());
  sequence.length_max = sequence.prompt_length + request.max_tokens;
  sequence.sampling = request.sampling;
  sequence.arrived = request.arrived;
  sequence.tokens = std::move(request.prompt);
  sequence.tokens.reserve(sequence.length_max);  // so that commit() does not allocate
  scheduler_->add(std::move(sequence));
}

void Engine::note_first_scheduled(const sched::Scheduler::Step& step, TimePoint now) {
  for (const sched::SeqId id : step.first_scheduled) live_.at(request_of(id)).scheduled = now;
}

metrics::StepCounts Engine::count_step(const sched::Scheduler::Step& step) {
  metrics::StepCounts counts;
  counts.preemptions = step.preempted;
  for (const sched::StepItem& item : step.items) {
    counts.tokens += item.count;
    Live& live = live_.at(request_of(item.sequence->id));
    const uint32_t run = std::min(item.first + item.count, live.prompt_tokens);
    if (run > live.prompt_tokens_run) {
      counts.prompt_tokens += run - live.prompt_tokens_run;
      live.prompt_tokens_run = run;
    }
  }
  return counts;
}

void Engine::publish(const sched::Scheduler::Step& step, sched::StepResult result, TimePoint now) {
  size_t next = 0;
  for (const sched::StepItem& item : step.items) {
    if (!item.sample) continue;
    SampledToken& token = result.tokens[next++];
    const RequestId id = request_of(item.sequence->id);
    Live& live = live_.at(id);
    note_token_time(live, now);

    Answer::Progress progress = live.answer.add(token.id);
    OutputEvent event;
    event.text = std::move(progress.text);
    event.tokens.push_back(std::move(token));
    if (progress.finish) {
      end(id, *progress.finish, std::move(event), std::nullopt);
    } else {
      live.channel.send(std::move(event));
    }
  }
}

void Engine::note_token_time(Live& live, TimePoint now) {
  if (!live.first_token) {
    live.first_token = now;
    metrics_.on_first_token(now - live.arrived);
  } else {
    metrics_.on_inter_token(now - live.last_token);
  }
  live.last_token = now;
}

void Engine::fail_step(const sched::Scheduler::Step& step, const Error& error) {
  // Ids first: ending a request frees the sequence that the step points at.
  std::vector<RequestId> ids;
  for (const sched::StepItem& item : step.items) ids.push_back(request_of(item.sequence->id));
  for (const RequestId id : ids) end(id, FinishReason::kError, {}, error);
}

void Engine::fail_all(const Error& error) {
  drain_incoming();
  while (!live_.empty()) end(live_.begin()->first, FinishReason::kError, {}, error);
  metrics_.on_idle(state_counts());
}

void Engine::end(RequestId id, FinishReason reason, OutputEvent event, std::optional<Error> error) {
  const auto found = live_.find(id);
  CHECK(found != live_.end(), "request {} ends twice", static_cast<uint64_t>(id));
  const bool known = scheduler_->finish(sequence_of(id));
  CHECK(known, "request {} has no sequence", static_cast<uint64_t>(id));

  Live live = std::move(found->second);
  live_.erase(found);
  in_flight_.fetch_sub(1);  // before the last event: a client that has it may send its next request
  count_end(live, reason);
  event.finish = Finish{.reason = reason,
                        .prompt_tokens = live.prompt_tokens,
                        .output_tokens = live.answer.output_tokens(),
                        .error = std::move(error)};
  live.channel.send(std::move(event));
}

void Engine::count_end(const Live& live, FinishReason reason) {
  if (reason == FinishReason::kCancelled) return metrics_.on_cancelled();
  if (reason == FinishReason::kError) return metrics_.on_failed();
  metrics_.on_finished({.reason = reason == FinishReason::kStop ? metrics::FinishedReason::kStop
                                                                : metrics::FinishedReason::kLength,
                        .prompt_tokens = live.prompt_tokens,
                        .output_tokens = live.answer.output_tokens(),
                        .e2e = live.last_token - live.arrived,
                        .queue_wait = *live.scheduled - live.arrived,
                        .prefill = *live.first_token - *live.scheduled,
                        .decode = live.last_token - *live.first_token});
}

metrics::StepCounts Engine::state_counts() const {
  metrics::StepCounts counts;
  counts.running = scheduler_->running_count();
  counts.waiting = scheduler_->waiting_count();
  counts.blocks_used = scheduler_->blocks_used();
  counts.blocks_total = scheduler_->block_count();
  return counts;
}

}  // namespace pacer::engine
