// Builds a StepPlan within the limits of a SchedView, so that a policy only says in which order.
//
// Keeps count of tokens, blocks and running sequences; every add either fits whole (a prefill chunk
// may be cut to what fits) or changes nothing. Preempting a sequence makes its blocks available to
// later adds of the same plan.
#pragma once

#include <utility>

#include "sched/step_plan.h"

namespace pacer::sched {

class PlanBuilder {
 public:
  explicit PlanBuilder(const SchedView& view);

  // One token of a decoding sequence. False: no token budget or no block left.
  bool add_decode(const SeqView& seq);

  // As many of a running sequence's pending prompt tokens as budget and blocks allow. False: not
  // even one. A token of a sequence that scores its prompt counts as two, as far as there are two
  // left: the output matrix, which it runs through as well, is up to half of a small model.
  bool add_prefill_chunk(const SeqView& seq);

  // Admits a waiting sequence with its first chunk. False, and nobody behind it should be tried by
  // a policy that keeps order: no slot, no budget, or not enough blocks for all of its tokens and
  // one more.
  bool admit(const SeqView& seq);

  // Gives back the blocks of a running sequence, which is then waiting again.
  void preempt(const SeqView& seq);

  bool is_preempted(SeqId id) const;
  bool is_planned(SeqId id) const;
  bool preempted_any() const { return !plan_.preempt.empty(); }
  uint32_t tokens_left() const { return tokens_left_; }
  StepPlan take() { return std::move(plan_); }

 private:
  bool add(const SeqView& seq, uint32_t tokens, uint32_t cost);

  StepPlan plan_;
  uint32_t tokens_left_;
  uint32_t blocks_free_;
  uint32_t slots_left_;
};

}  // namespace pacer::sched
