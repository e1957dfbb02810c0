// What one engine step shall do, as a policy proposes it, and the snapshot that it proposes from.
//
// Plan -> execute -> commit: a policy is a pure function from SchedView to StepPlan; the Scheduler
// checks the plan against the same limits and applies it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "sched/sequence.h"

namespace pacer::sched {

struct StepPlan {
  struct Item {
    SeqId id;
    uint32_t token_count;  // from the sequence's first token that is not computed
  };
  std::vector<SeqId> preempt;  // before anything runs: give back their blocks
  std::vector<Item> items;     // distinct sequences; waiting ones are admitted by being here

  bool empty() const { return items.empty(); }
  uint32_t token_total() const {
    uint32_t total = 0;
    for (const Item& item : items) total += item.token_count;
    return total;
  }
};

// What a policy may know about a sequence.
struct SeqView {
  SeqId id;
  uint32_t length;    // tokens so far
  uint32_t computed;  // of which are in the KV cache
  uint32_t blocks_held;
  bool decoding;  // exactly one token pending, and it is a generated one
  bool scoring;   // its prompt tokens need logits too, and cost about twice
  TimePoint arrived;
};

struct SchedView {
  TimePoint now;
  std::span<const SeqView> running;  // oldest arrival first
  std::span<const SeqView>
      waiting;  // oldest arrival first; preempted ones stand where they arrived
  uint32_t blocks_free;
  uint32_t step_tokens_max;  // tokens that one step may run
  uint32_t running_max;      // sequences that may run at once
};

}  // namespace pacer::sched
