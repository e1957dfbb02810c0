// The scheduler: owns sequences and KV blocks, asks a policy for a plan, checks it and applies it.
//
// plan() admits, preempts and reserves blocks; the caller runs the items; commit() advances the
// sequences and appends what was sampled; the caller then finishes those that are done. Invariants
// are checked at both ends, always. No threads, no wall clock: time comes in as an argument.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "kv/block_manager.h"
#include "sched/executor.h"
#include "sched/policy.h"

namespace pacer::sched {

struct SchedulerConfig {
  uint32_t step_tokens_max = 256;  // tokens that one step may run, decode and prefill together
  uint32_t running_max = 32;       // sequences that may run at once
  uint32_t block_count = 0;        // KV blocks in the pool
};

class Scheduler {
 public:
  Scheduler(SchedulerConfig config, std::unique_ptr<Policy> policy);
  ~Scheduler();

  const SchedulerConfig& config() const { return config_; }

  // Whether a request of this total length can ever run, alone in the pool.
  bool fits(uint32_t length_max) const;

  // Takes in a waiting sequence that fits(). Its id must be new.
  void add(Sequence sequence);

  struct Step {
    std::vector<StepItem> items;         // valid until commit(), finish() or the next plan()
    std::vector<SeqId> first_scheduled;  // run now for the first time: their queue wait is over
    uint32_t preempted = 0;
    bool empty() const { return items.empty(); }
  };
  Step plan(TimePoint now);

  // After the executor ran the step. result.tokens: one for each item that samples, and
  // result.scored one for each prompt token that was to be scored; the caller finishes the
  // sequences that lack one.
  void commit(const Step& step, const StepResult& result);

  // Forgets a sequence in any state and frees its blocks. False: no such sequence.
  bool finish(SeqId id);

  const Sequence* find(SeqId id) const;  // nullptr: no such sequence
  uint32_t running_count() const { return static_cast<uint32_t>(running_.size()); }
  uint32_t waiting_count() const { return static_cast<uint32_t>(waiting_.size()); }
  uint32_t blocks_used() const { return blocks_.used_count(); }
  uint32_t block_count() const { return blocks_.count(); }

 private:
  void preempt(SeqId id);
  void admit(Sequence& seq);
  StepItem reserve(const StepPlan::Item& item);
  void check_invariants() const;

  SchedulerConfig config_;
  std::unique_ptr<Policy> policy_;
  kv::BlockManager blocks_;
  std::map<SeqId, Sequence> sequences_;
  std::vector<SeqId> running_;                          // oldest arrival first
  std::vector<SeqId> waiting_;                          // oldest arrival first
  std::vector<SeqView> running_views_, waiting_views_;  // reused by plan()
};

}  // namespace pacer::sched
