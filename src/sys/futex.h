// Sleeping on a 32-bit atomic, with a private futex. Internal to sys: the thread pool.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <ctime>

namespace pacer::sys {

static_assert(sizeof(std::atomic<uint32_t>) == 4 && std::atomic<uint32_t>::is_always_lock_free,
              "the kernel reads the atomic as a plain word");

// Sleeps while word == expected. May return early for no reason: the caller looks again.
inline void futex_wait(const std::atomic<uint32_t>& word, uint32_t expected) {
  ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

// The same, at most for `limit`.
inline void futex_wait_for(const std::atomic<uint32_t>& word, uint32_t expected,
                           std::chrono::nanoseconds limit) {
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(limit);
  timespec timeout{};
  timeout.tv_sec = whole.count();
  timeout.tv_nsec = (limit - whole).count();
  ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, &timeout, nullptr, 0);
}

inline void futex_wake(const std::atomic<uint32_t>& word, uint32_t waiters_max) {
  const int count = waiters_max > INT_MAX ? INT_MAX : static_cast<int>(waiters_max);
  ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

}  // namespace pacer::sys
