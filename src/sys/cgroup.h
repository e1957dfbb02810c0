// What the cgroups above this process allow, v1 and v2, read from files below `root` ("" is the
// machine; tests pass a fake tree). Internal to sys: the rest of the program asks memory.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sys/memory.h"

namespace pacer::sys {

struct CgroupMemory {
  uint64_t limit_bytes = 0;  // the smallest limit on the way up
  std::string limited_by;    // the file that holds it
  uint64_t available_bytes =
      0;  // the smallest room on the way up: limit - (usage - reclaimable file cache)
};

// Nothing when no cgroup above this process has a limit.
std::optional<CgroupMemory> cgroup_memory(const std::string& root);

// The smallest CFS quota on the way up, in CPUs; 0: none.
double cgroup_cpus(const std::string& root);

// memory_limits() and cpu_limits() over another root.
MemoryLimits memory_limits_under(const std::string& root);
CpuLimits cpu_limits_under(const std::string& root, uint32_t cores);

}  // namespace pacer::sys
