// The machine's own answers, and big buffers.
#include "sys/memory.h"

#include <sched.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <thread>
#include <utility>

#include "base/human.h"
#include "base/math.h"
#include "sys/cgroup.h"

namespace pacer::sys {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

// CPUs in the affinity mask. The mask is asked for in growing sizes: the call fails while it is too
// small.
uint32_t schedulable_cores() {
  for (int cpus_max = 1024; cpus_max <= 1 << 16; cpus_max *= 4) {
    cpu_set_t* set = CPU_ALLOC(cpus_max);
    if (set == nullptr) break;
    const size_t size = CPU_ALLOC_SIZE(cpus_max);
    CPU_ZERO_S(size, set);
    const bool known = ::sched_getaffinity(0, size, set) == 0;
    const int count = known ? CPU_COUNT_S(size, set) : 0;
    CPU_FREE(set);
    if (known) return static_cast<uint32_t>(count);
    if (errno != EINVAL) break;
  }
  return std::thread::hardware_concurrency();
}

// munmap can fail only for wrong arguments, which would be a bug of ours and a leak, not a danger.
void unmap(void* address, size_t size) {
  if (size > 0) ::munmap(address, size);
}

size_t mapped_size(size_t bytes) {
  return round_up(bytes, kHugePage);
}

}  // namespace

MemoryLimits memory_limits() {
  return memory_limits_under("");
}

CpuLimits cpu_limits() {
  return cpu_limits_under("", schedulable_cores());
}

Result<HugeBuffer> HugeBuffer::allocate(size_t bytes, const char* what) {
  HugeBuffer buffer;
  if (bytes == 0) return buffer;
  if (bytes > std::numeric_limits<size_t>::max() / 2) {
    return error(Code::kExhausted, "cannot allocate {} for {}: more than an address space",
                 human_bytes(bytes), what);
  }

  // mmap aligns to 4 KiB: ask for one huge page more and give back both ends.
  const size_t size = mapped_size(bytes);
  const size_t asked = size + kHugePage;
  void* raw = ::mmap(nullptr, asked, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) {
    return error(Code::kExhausted, "cannot allocate {} for {}: {}", human_bytes(bytes), what,
                 std::strerror(errno));
  }
  const auto address = reinterpret_cast<uintptr_t>(raw);
  const size_t before = round_up<uintptr_t>(address, kHugePage) - address;
  std::byte* data = static_cast<std::byte*>(raw) + before;
  unmap(raw, before);
  unmap(data + size, asked - before - size);

  ::madvise(data, size, MADV_HUGEPAGE);  // advice: where it is refused, small pages are only slower
  buffer.data_ = data;
  buffer.size_ = bytes;
  return buffer;
}

HugeBuffer::~HugeBuffer() {
  unmap(data_, mapped_size(size_));
}

HugeBuffer::HugeBuffer(HugeBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

HugeBuffer& HugeBuffer::operator=(HugeBuffer&& other) noexcept {
  if (this != &other) {
    unmap(data_, mapped_size(size_));
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

}  // namespace pacer::sys
