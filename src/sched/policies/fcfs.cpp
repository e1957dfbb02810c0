// First come, first served: the baseline, and the example to copy for a new policy.
//
// Running streams get their token first, oldest first; what is left of the step goes to prompts in
// the order of arrival, in chunks. Nobody overtakes. Out of blocks: the youngest running sequence
// gives way, so the oldest always moves on and no pool size that fits one request can livelock.
#include "sched/plan_builder.h"
#include "sched/policies/policies.h"

namespace pacer::sched {

namespace {

class FcfsPolicy final : public Policy {
 public:
  StepPlan propose(const SchedView& view) override {
    PlanBuilder plan(view);
    for (const SeqView& seq : view.running) {
      if (seq.decoding && !plan.is_preempted(seq.id)) decode(plan, view, seq);
    }
    for (const SeqView& seq : view.running) {
      if (!seq.decoding && !plan.is_preempted(seq.id)) prefill(plan, view, seq);
    }
    if (plan.preempted_any())
      return plan.take();  // what just gave way must not be let in again at once
    for (const SeqView& seq : view.waiting) {
      if (!plan.admit(seq)) break;  // keep the order of arrival: nobody overtakes
    }
    return plan.take();
  }

 private:
  static void decode(PlanBuilder& plan, const SchedView& view, const SeqView& seq) {
    while (!plan.add_decode(seq)) {
      if (plan.tokens_left() == 0 || !give_way(plan, view, seq)) return;
    }
  }

  static void prefill(PlanBuilder& plan, const SchedView& view, const SeqView& seq) {
    while (!plan.add_prefill_chunk(seq)) {
      if (plan.tokens_left() == 0 || !give_way(plan, view, seq)) return;
    }
  }

  // Preempts the youngest sequence behind `seq` that is not in the step yet; with none left, `seq`
  // itself waits.
  static bool give_way(PlanBuilder& plan, const SchedView& view, const SeqView& seq) {
    for (auto other = view.running.rbegin(); other != view.running.rend(); ++other) {
      if (other->id == seq.id) break;
      if (plan.is_preempted(other->id) || plan.is_planned(other->id)) continue;
      plan.preempt(*other);
      return true;
    }
    return false;
  }
};

}  // namespace

std::unique_ptr<Policy> make_fcfs() {
  return std::make_unique<FcfsPolicy>();
}

}  // namespace pacer::sched
