// Memory of the machine: how much there is for us, and big buffers on huge pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace pacer::sys {

struct MemoryLimits {
  uint64_t total_bytes =
      0;  // the smaller of RAM and every cgroup limit above this process (v1 and v2)
  uint64_t available_bytes = 0;  // what could be allocated now without swapping or being killed
  std::string limited_by;        // "machine" or the cgroup file that holds the limit
};
MemoryLimits memory_limits();

struct CpuLimits {
  uint32_t cores = 1;      // schedulable: affinity mask
  double cgroup_cpus = 0;  // CFS quota in CPUs; 0: none
  uint32_t threads = 1;    // what to start by default: min of both, quota rounded up, at least 1
};
CpuLimits cpu_limits();

// Zeroed, 2 MiB-aligned anonymous memory, on huge pages where the kernel grants them. Movable,
// frees itself.
class HugeBuffer {
 public:
  HugeBuffer() = default;
  // "cannot allocate 12.3 GiB for KV blocks": `what` names the use.
  static Result<HugeBuffer> allocate(size_t bytes, const char* what);
  ~HugeBuffer();
  HugeBuffer(HugeBuffer&& other) noexcept;
  HugeBuffer& operator=(HugeBuffer&& other) noexcept;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace pacer::sys
