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

// Tokens of the sequence at most. Where nothing is to be said, a token is sampled all the same: it
// is dropped.
uint64_t length_for(const GenerateRequest& request) {
  return uint64_t{request.prompt.size()} + std::max(request.max_tokens, 1u);
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
  CHECK(!request.prompt.empty(), "request '{}' has no prompt", request.name);
  CHECK(request.sampling.min_tokens <= request.max_tokens, "request '{}': {} to {} tokens",
        request.name, request.sampling.min_tokens, request.max_tokens);
  const uint64_t length_max = length_for(request);
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
  // An engine that slept has an old last step; work counts from now (see stalled_for).
  if (in_flight_.load() == 0) busy_since_.store(clock_.now());
  // Count first, then look: two threads at the limit cannot both slip in, and nobody who saw zero
  // in flight after stop_admitting() can find a request later.
  if (in_flight_.fetch_add(1) >= in_flight_max()) {
    in_flight_.fetch_sub(1);
    metrics_.on_rejected(metrics::RejectedReason::kQueueFull);
    return error(Code::kExhausted, "the queue is full: {} requests are in flight, {} may be",
                 in_flight_max(), in_flight_max());
  }
  if (!admitting_.load()) {
    in_flight_.fetch_sub(1);
    metrics_.on_rejected(metrics::RejectedReason::kShuttingDown);
    return error(Code::kUnavailable, "the server is shutting down");
  }
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
    deliver();
    return false;
  }
  note_first_scheduled(step, clock_.now());
  metrics::StepCounts counts = count_step(step);

  Result<sched::StepResult> result = executor_.run(step.items);

  const TimePoint now = clock_.now();
  if (result) {
    scheduler_->commit(step, *result);
    counts.output_tokens = publish(step, *std::move(result), now);
  } else {
    fail_step(step, result.error());
  }
  last_step_.store(now);
  count_state(counts);
  metrics_.on_step(counts);
  deliver();
  return true;
}

void Engine::drain_incoming() {
  for (Command& command : inbox_.drain()) {
    if (auto* submit = std::get_if<Submit>(&command)) {
      take_in(std::move(*submit));
    } else {
      const RequestId id = std::get<Cancel>(command).id;
      if (runs(id)) end(id, FinishReason::kCancelled, {}, std::nullopt);
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
  sequence.length_max = static_cast<uint32_t>(length_for(request));
  sequence.sampling = std::move(request.sampling);
  if (sequence.sampling.min_tokens > 0) sequence.sampling.ends = Answer::ends(request, tokenizer_);
  sequence.scores_prompt = request.prompt_logprobs;
  sequence.arrived = request.arrived;
  sequence.tokens = std::move(request.prompt);
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

// Hands on what a step gave each request; the number of tokens that answers got.
uint32_t Engine::publish(const sched::Scheduler::Step& step, sched::StepResult result,
                         TimePoint now) {
  uint32_t output_tokens = 0;
  size_t next = 0, next_scored = 0;
  for (const sched::StepItem& item : step.items) {
    const RequestId id = request_of(item.sequence->id);
    OutputEvent event;
    for (uint32_t i = 0; i < item.score_count; ++i) {
      if (auto& token = result.scored[next_scored++]) event.prompt.push_back(*std::move(token));
    }
    std::optional<SampledToken> token;
    if (item.sample) token = std::move(result.tokens[next++]);
    if (event.prompt.size() < item.score_count || (item.sample && !token)) {
      end(id, FinishReason::kError, {},
          error(Code::kInternal, "the model computed no number for the next token"));
      continue;
    }
    if (!item.sample) {
      if (!event.prompt.empty()) outbox_.emplace_back(id, std::move(event));
      continue;
    }
    Live& live = live_.at(id);
    note_token_time(live, now);
    if (live.answer.max_tokens() == 0) {  // its prompt was all there was to do
      end(id, FinishReason::kLength, std::move(event), std::nullopt);
      continue;
    }
    output_tokens += 1;
    Answer::Progress progress = live.answer.add(token->id);
    event.text = std::move(progress.text);
    event.tokens.push_back(*std::move(token));
    if (progress.finish) {
      end(id, *progress.finish, std::move(event), std::nullopt);
    } else {
      outbox_.emplace_back(id, std::move(event));
    }
  }
  return output_tokens;
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
  std::vector<RequestId> ids;
  for (const auto& [id, live] : live_) ids.push_back(id);
  for (const RequestId id : ids) {
    if (runs(id)) end(id, FinishReason::kError, {}, error);
  }
  metrics_.on_idle(state_counts());
  deliver();
}

bool Engine::runs(RequestId id) const {
  return scheduler_->find(sequence_of(id)) != nullptr;
}

// Frees what the request holds and counts it; its last event leaves with deliver().
void Engine::end(RequestId id, FinishReason reason, OutputEvent event, std::optional<Error> error) {
  const bool known = scheduler_->finish(sequence_of(id));
  CHECK(known, "request {} ends twice", static_cast<uint64_t>(id));
  const Live& live = live_.at(id);
  in_flight_.fetch_sub(1);  // before the last event: a client that has it may send its next request
  count_end(live, reason);
  event.finish = Finish{.reason = reason,
                        .prompt_tokens = live.prompt_tokens,
                        .output_tokens = live.answer.output_tokens(),
                        .error = std::move(error)};
  if (live.scheduled) event.finish->queue_wait = *live.scheduled - live.arrived;
  if (live.first_token) event.finish->ttft = *live.first_token - live.arrived;
  outbox_.emplace_back(id, std::move(event));
}

// Last of a step, when metrics already tell of it: who has an answer finds its traces there.
void Engine::deliver() {
  for (auto& [id, event] : outbox_) {
    const auto live = live_.find(id);
    CHECK(live != live_.end(), "an event for request {}, which is gone", static_cast<uint64_t>(id));
    const bool last = event.finish.has_value();
    live->second.channel.send(std::move(event));
    if (last) live_.erase(live);
  }
  outbox_.clear();
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

void Engine::count_state(metrics::StepCounts& counts) const {
  counts.running = scheduler_->running_count();
  counts.waiting = scheduler_->waiting_count();
  counts.blocks_used = scheduler_->blocks_used();
  counts.blocks_total = scheduler_->block_count();
}

metrics::StepCounts Engine::state_counts() const {
  metrics::StepCounts counts;
  count_state(counts);
  return counts;
}

}  // namespace pacer::engine
