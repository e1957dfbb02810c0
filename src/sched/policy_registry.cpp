#include <algorithm>
#include <string>

#include "sched/policies/policies.h"
#include "sched/policy.h"

namespace pacer::sched {

namespace {

constexpr PolicyEntry kPolicies[] = {
    {"fcfs", make_fcfs},
};

}  // namespace

Result<std::unique_ptr<Policy>> make_policy(std::string_view name) {
  std::string known;
  for (const PolicyEntry& entry : kPolicies) {
    if (entry.name == name) return entry.make();
    if (!known.empty()) known += ", ";
    known += entry.name;
  }
  return error(Code::kInvalidArgument, "policy '{}' is unknown; there is: {}", name, known);
}

}  // namespace pacer::sched
