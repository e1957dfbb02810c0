// The policies that exist; each is one file beside this one and one line in policy_registry.cpp.
#pragma once

#include <memory>

#include "sched/policy.h"

namespace pacer::sched {

std::unique_ptr<Policy> make_fcfs();

}  // namespace pacer::sched
