#include "sched/plan_builder.h"

#include <algorithm>

#include "base/check.h"
#include "base/math.h"

namespace pacer::sched {

namespace {

// Blocks that a sequence lacks to hold its first `tokens` tokens.
uint32_t blocks_missing(const SeqView& seq, uint32_t tokens) {
  const uint32_t needed = kv::blocks_for_tokens(tokens);
  return needed > seq.blocks_held ? needed - seq.blocks_held : 0;
}

}  // namespace

PlanBuilder::PlanBuilder(const SchedView& view)
    : tokens_left_(view.step_tokens_max),
      blocks_free_(view.blocks_free),
      slots_left_(view.running_max - static_cast<uint32_t>(view.running.size())) {
  CHECK(view.running.size() <= view.running_max, "{} sequences run, {} may", view.running.size(),
        view.running_max);
}

bool PlanBuilder::add(const SeqView& seq, uint32_t tokens, uint32_t cost) {
  if (tokens == 0 || tokens > tokens_left_) return false;
  const uint32_t blocks = blocks_missing(seq, seq.computed + tokens);
  if (blocks > blocks_free_) return false;
  tokens_left_ -= std::min(tokens_left_, tokens * cost);
  blocks_free_ -= blocks;
  plan_.items.push_back({seq.id, tokens});
  return true;
}

bool PlanBuilder::add_decode(const SeqView& seq) {
  CHECK(seq.decoding, "sequence {} is not decoding", value(seq.id));
  return add(seq, 1, 1);
}

bool PlanBuilder::add_prefill_chunk(const SeqView& seq) {
  const uint32_t room = (seq.blocks_held + blocks_free_) * kv::kBlockTokens - seq.computed;
  const uint32_t cost = seq.scoring ? 2 : 1;
  return add(seq, std::min({seq.length - seq.computed, div_ceil(tokens_left_, cost), room}), cost);
}

bool PlanBuilder::admit(const SeqView& seq) {
  // +1: the token sampled after the prompt needs a slot too; else a pool filled to the brim by
  // prompts would preempt in the very next step.
  if (slots_left_ == 0 || blocks_missing(seq, seq.length + 1) > blocks_free_) return false;
  if (!add_prefill_chunk(seq)) return false;
  --slots_left_;
  return true;
}

void PlanBuilder::preempt(const SeqView& seq) {
  CHECK(!is_preempted(seq.id), "sequence {} preempted twice", value(seq.id));
  CHECK(!is_planned(seq.id), "sequence {} is already in this step", value(seq.id));
  plan_.preempt.push_back(seq.id);
  blocks_free_ += seq.blocks_held;
  ++slots_left_;
}

bool PlanBuilder::is_preempted(SeqId id) const {
  return std::find(plan_.preempt.begin(), plan_.preempt.end(), id) != plan_.preempt.end();
}

bool PlanBuilder::is_planned(SeqId id) const {
  return std::any_of(plan_.items.begin(), plan_.items.end(),
                     [&](const StepPlan::Item& item) { return item.id == id; });
}

}  // namespace pacer::sched
