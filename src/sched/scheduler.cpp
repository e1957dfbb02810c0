#include "sched/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace pacer::sched {

namespace {

// Arrival decides, then the id: ids grow with submission, so equal stamps keep their order.
bool older(const Sequence& a, const Sequence& b) {
  return std::pair(a.arrived, a.id) < std::pair(b.arrived, b.id);
}

SeqView view_of(const Sequence& seq) {
  return SeqView{.id = seq.id,
                 .length = seq.length(),
                 .computed = seq.computed,
                 .blocks_held = static_cast<uint32_t>(seq.blocks.size()),
                 .decoding = seq.decoding(),
                 .scoring = seq.scoring(),
                 .arrived = seq.arrived};
}

}  // namespace

Scheduler::Scheduler(SchedulerConfig config, std::unique_ptr<Policy> policy)
    : config_(config), policy_(std::move(policy)), blocks_(config.block_count) {
  CHECK(config.step_tokens_max > 0 && config.running_max > 0 && config.block_count > 0,
        "step_tokens_max {}, running_max {}, block_count {}: all must be positive",
        config.step_tokens_max, config.running_max, config.block_count);
}

Scheduler::~Scheduler() {
  for (auto& [id, seq] : sequences_) blocks_.release(seq.blocks);
  CHECK(blocks_.used_count() == 0, "{} KV blocks leaked", blocks_.used_count());
}

bool Scheduler::fits(uint32_t length_max) const {
  return kv::blocks_for_tokens(length_max) <= blocks_.count();
}

namespace {

template <class Sequences>
void insert_by_age(std::vector<SeqId>& ids, const Sequences& sequences, SeqId id) {
  const auto place = std::upper_bound(ids.begin(), ids.end(), id, [&](SeqId a, SeqId b) {
    return older(sequences.at(a), sequences.at(b));
  });
  ids.insert(place, id);
}

}  // namespace

void Scheduler::add(Sequence sequence) {
  const SeqId id = sequence.id;
  CHECK(sequence.prompt_length > 0 && sequence.prompt_length == sequence.length(),
        "sequence {}: prompt of {} in {} tokens", value(id), sequence.prompt_length,
        sequence.length());
  CHECK(sequence.length_max > sequence.prompt_length, "sequence {}: length {} of at most {}",
        value(id), sequence.prompt_length, sequence.length_max);
  CHECK(fits(sequence.length_max), "sequence {} of {} tokens cannot fit {} blocks", value(id),
        sequence.length_max, blocks_.count());
  CHECK(sequence.state == SeqState::kWaiting && sequence.blocks.empty() && sequence.computed == 0,
        "sequence {} is not fresh", value(id));
  const bool is_new = sequences_.emplace(id, std::move(sequence)).second;
  CHECK(is_new, "sequence {} added twice", value(id));
  insert_by_age(waiting_, sequences_, id);
}

Scheduler::Step Scheduler::plan(TimePoint now) {
  running_views_.clear();
  for (const SeqId id : running_) running_views_.push_back(view_of(sequences_.at(id)));
  waiting_views_.clear();
  for (const SeqId id : waiting_) waiting_views_.push_back(view_of(sequences_.at(id)));

  const StepPlan plan = policy_->propose(SchedView{.now = now,
                                                   .running = running_views_,
                                                   .waiting = waiting_views_,
                                                   .blocks_free = blocks_.free_count(),
                                                   .step_tokens_max = config_.step_tokens_max,
                                                   .running_max = config_.running_max});
  CHECK(plan.token_total() <= config_.step_tokens_max, "plan of {} tokens, {} allowed",
        plan.token_total(), config_.step_tokens_max);
  // A policy that stands still while someone could run would hang every client.
  CHECK(!plan.empty() || sequences_.empty(),
        "nothing planned for {} running and {} waiting sequences", running_.size(),
        waiting_.size());

  Step step;
  step.preempted = static_cast<uint32_t>(plan.preempt.size());
  for (const SeqId id : plan.preempt) preempt(id);
  for (const StepPlan::Item& item : plan.items) {
    Sequence& seq = sequences_.at(item.id);
    if (seq.state == SeqState::kWaiting) {
      admit(seq);
      if (seq.preemptions == 0) step.first_scheduled.push_back(seq.id);
    }
    step.items.push_back(reserve(item));
  }
  check_invariants();
  return step;
}

void Scheduler::preempt(SeqId id) {
  Sequence& seq = sequences_.at(id);
  CHECK(seq.state == SeqState::kRunning, "preempting sequence {} which does not run", value(id));
  blocks_.release(seq.blocks);
  seq.computed = 0;
  seq.preemptions += 1;
  seq.state = SeqState::kWaiting;
  std::erase(running_, id);
  insert_by_age(waiting_, sequences_, id);
}

void Scheduler::admit(Sequence& seq) {
  CHECK(running_.size() < config_.running_max, "admitting sequence {} beyond {} running",
        value(seq.id), config_.running_max);
  seq.state = SeqState::kRunning;
  seq.tokens.reserve(seq.length_max);  // so that commit() does not allocate
  std::erase(waiting_, seq.id);
  insert_by_age(running_, sequences_, seq.id);
}

StepItem Scheduler::reserve(const StepPlan::Item& item) {
  Sequence& seq = sequences_.at(item.id);
  CHECK(item.token_count > 0 && item.token_count <= seq.pending(),
        "{} tokens of sequence {}, {} pending", item.token_count, value(seq.id), seq.pending());
  const uint32_t needed = kv::blocks_for_tokens(seq.computed + item.token_count);
  const auto held = static_cast<uint32_t>(seq.blocks.size());
  if (needed > held) {
    CHECK(blocks_.try_extend(seq.blocks, needed - held),
          "plan needs {} more blocks for sequence {}, {} free", needed - held, value(seq.id),
          blocks_.free_count());
  }
  StepItem step_item{.sequence = &seq,
                     .first = seq.computed,
                     .count = item.token_count,
                     .sample = item.token_count == seq.pending()};
  // The row of a token scores the one after it. What was scored before a preemption is not again.
  const uint32_t scorable = std::min(seq.computed + item.token_count + 1, seq.prompt_length);
  if (seq.scores_prompt && seq.scored < scorable) {
    step_item.score_first = seq.scored;
    step_item.score_count = scorable - seq.scored;
  }
  return step_item;
}

void Scheduler::commit(const Step& step, const StepResult& result) {
  size_t sampled = 0, scored = 0;
  for (const StepItem& item : step.items) {
    Sequence& seq = sequences_.at(item.sequence->id);
    CHECK(seq.computed == item.first, "sequence {} stands at {}, the step ran from {}",
          value(seq.id), seq.computed, item.first);
    seq.computed += item.count;
    seq.scored += item.score_count;
    scored += item.score_count;
    if (!item.sample) continue;
    CHECK(sampled < result.tokens.size(), "the step sampled only {} tokens", result.tokens.size());
    const std::optional<SampledToken>& token = result.tokens[sampled++];
    if (!token) continue;  // the caller ends it: check_invariants() would find it at the next plan
    seq.tokens.push_back(token->id);
    CHECK(seq.length() <= seq.length_max, "sequence {} grew to {} tokens of at most {}",
          value(seq.id), seq.length(), seq.length_max);
  }
  CHECK(sampled == result.tokens.size(), "the step sampled {} tokens, {} were asked",
        result.tokens.size(), sampled);
  CHECK(scored == result.scored.size(), "the step scored {} prompt tokens, {} were asked",
        result.scored.size(), scored);
}

bool Scheduler::finish(SeqId id) {
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) return false;
  blocks_.release(found->second.blocks);
  std::erase(found->second.state == SeqState::kRunning ? running_ : waiting_, id);
  sequences_.erase(found);
  return true;
}

const Sequence* Scheduler::find(SeqId id) const {
  const auto found = sequences_.find(id);
  return found == sequences_.end() ? nullptr : &found->second;
}

void Scheduler::check_invariants() const {
  CHECK(running_.size() + waiting_.size() == sequences_.size(),
        "{} running + {} waiting != {} sequences", running_.size(), waiting_.size(),
        sequences_.size());
  size_t held = 0;
  for (const auto& [id, seq] : sequences_) {
    held += seq.blocks.size();
    CHECK(seq.computed < seq.length(), "sequence {}: {} of {} tokens computed, none to run",
          value(id), seq.computed, seq.length());
    CHECK(seq.computed <= seq.blocks.size() * kv::kBlockTokens,
          "sequence {}: {} tokens in {} blocks", value(id), seq.computed, seq.blocks.size());
    // The row that scores a token is computed with the token before it.
    CHECK(!seq.scoring() || seq.scored > seq.computed, "sequence {}: {} tokens computed, {} scored",
          value(id), seq.computed, seq.scored);
    CHECK(seq.state == SeqState::kRunning || seq.blocks.empty(),
          "waiting sequence {} holds {} blocks", value(id), seq.blocks.size());
  }
  CHECK(held == blocks_.used_count(), "sequences hold {} blocks, {} are taken", held,
        blocks_.used_count());
}

}  // namespace pacer::sched
