// A scheduling policy: who runs in the next step, and with how many tokens.
//
// Pure: reads a snapshot, returns a proposal, keeps no hidden clock or random source. To add one: a
// file in sched/policies/, a line in policy_registry.cpp; worked example: policies/fcfs.cpp.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "base/result.h"
#include "sched/step_plan.h"

namespace pacer::sched {

class Policy {
 public:
  virtual ~Policy() = default;
  virtual StepPlan propose(const SchedView& view) = 0;
};

struct PolicyEntry {
  std::string_view name;  // as --policy spells it
  std::unique_ptr<Policy> (*make)();
};

Result<std::unique_ptr<Policy>> make_policy(
    std::string_view name);  // unknown: the names that exist

}  // namespace pacer::sched
