// How the pool works. Reasons and measurements: docs/threads.md.
//
// Starting. The owner writes the operation (function, context, count) and then stores the count
// into `tiles_left`. Whoever lowers tiles_left by one, from n to n-1 with n > 0, owns tile count -
// n.
//
// A late worker. A worker may be preempted between looking at tiles_left and lowering it, and
// meanwhile one operation ends and the next begins. That is harmless, because nothing of the
// operation is read before the claim: a successful claim is always of the operation that is current
// at that instant, it makes the owner's writes of that operation visible (acquire), and it pins the
// operation, which cannot end before the claimed tile is counted as done. So no epoch has to be
// packed beside the counter; it would protect values that nobody holds across a claim. For the same
// reason a worker that has lowered nothing touches nothing but tiles_left.
//
// Ending. Each worker adds the number of tiles it did to `tiles_done`, once, when it finds none
// left; the owner waits for the sum. Workers that got no tile are not waited for, so a worker that
// sleeps or has no core costs nothing.
//
// Sleeping. Both sides use the same pattern: announce that you sleep, then look again, then sleep;
// the other side acts, then looks whether anyone announced. With sequentially consistent order one
// of the two always sees the other.
#include "sys/thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "sys/futex.h"
#include "sys/solo_backoff.h"

namespace pacer::sys {
namespace {

constexpr Duration kSpinMax = std::chrono::microseconds(40);  // measured: docs/threads.md
constexpr Duration kStallFrom = std::chrono::microseconds(500);
constexpr int kPausesPerLook = 64;  // between two looks at the clock: 1 to 3 us, by CPU
constexpr uint32_t kThreadsMax = 1024;

TimePoint now() {
  return std::chrono::steady_clock::now();
}

Duration cpu_time(clockid_t clock) {
  timespec used{};
  ::clock_gettime(clock, &used);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// Spins until ready() or about kSpinMax has passed. Says which.
template <class Ready>
bool spin_until(Ready ready) {
  if (ready()) return true;
  const TimePoint end = now() + kSpinMax;
  do {
    for (int i = 0; i < kPausesPerLook; ++i) {
      pause_cpu();
      if (ready()) return true;
    }
  } while (now() < end);
  return false;
}

}  // namespace

void set_denormals_to_zero() {
#if defined(__x86_64__)
  constexpr unsigned kFlushToZero = 1u << 15;
  constexpr unsigned kDenormalsAreZero = 1u << 6;
  __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | kFlushToZero | kDenormalsAreZero);
#endif
}

// What different threads write lies on different cache lines.
struct ThreadPool::Impl {
  // Claimed by everyone.
  alignas(64) std::atomic<uint32_t> tiles_left{0};
  // Finishing: added to by everyone, waited for by the owner.
  alignas(64) std::atomic<uint32_t> tiles_done{0};
  std::atomic<bool> owner_sleeps{false};
  // Idle workers.
  alignas(64) std::atomic<uint32_t> wake_count{0};  // the futex word: changes with every wake
  std::atomic<uint32_t> sleepers{0};
  std::atomic<bool> stopping{false};
  // The current operation: written by the owner while tiles_left is 0, read only after a claim.
  alignas(64) TileFn fn = nullptr;
  void* context = nullptr;
  uint32_t tile_count = 0;

  // Only the owner's from here on.
  alignas(64) std::atomic<bool> in_run{false};
  bool backing_off = false;  // saves asking the time when there was no stall lately
  bool may_back_off = true;
  BackoffClock backoff;
  uint64_t stalls = 0;
  std::vector<std::thread> workers;
  std::vector<clockid_t> cpu_clocks;  // of each worker
  std::vector<Duration> cpu_samples;

  void start_workers(uint32_t count);
  void worker_main(uint32_t worker);
  void sleep_until_work();
  void wake_workers(uint32_t count);

  void work_off(uint32_t worker);
  void run_alone(uint32_t count, TileFn tile_fn, void* tile_context);
  void run_shared(uint32_t count, TileFn tile_fn, void* tile_context);
  bool should_work_alone();
  void wait_until_done(uint32_t count);
  void wait_out_a_stall(uint32_t count);
  Duration most_cpu_used();
  void sample_cpu();
};

// Claims and does tiles until none are left, then reports how many it did.
void ThreadPool::Impl::work_off(uint32_t worker) {
  uint32_t tiles = 0;
  uint32_t left = tiles_left.load(std::memory_order_relaxed);
  while (left > 0) {
    if (!tiles_left.compare_exchange_weak(left, left - 1, std::memory_order_acquire,
                                          std::memory_order_relaxed)) {
      continue;  // left is fresh
    }
    fn(context, tile_count - left, worker);
    ++tiles;
    left = tiles_left.load(std::memory_order_relaxed);
  }
  if (tiles == 0) return;

  const uint32_t count = tile_count;  // after the next line the operation may end and be replaced
  const uint32_t done = tiles_done.fetch_add(tiles, std::memory_order_seq_cst) + tiles;
  if (done == count && owner_sleeps.load(std::memory_order_seq_cst)) futex_wake(tiles_done, 1);
}

void ThreadPool::Impl::worker_main(uint32_t worker) {
  const std::string name = fmt::format("pacer-w{}", worker);
  ::pthread_setname_np(::pthread_self(), name.c_str());
  set_denormals_to_zero();

  const auto something_to_do = [this] {
    return tiles_left.load(std::memory_order_relaxed) > 0 ||
           stopping.load(std::memory_order_relaxed);
  };
  while (!stopping.load(std::memory_order_relaxed)) {
    work_off(worker);
    if (!spin_until(something_to_do)) sleep_until_work();
  }
}

void ThreadPool::Impl::sleep_until_work() {
  sleepers.fetch_add(1, std::memory_order_seq_cst);
  for (;;) {
    // Read before looking for work: a wake that comes after the look then changes the word, and we
    // do not sleep.
    const uint32_t seen = wake_count.load(std::memory_order_seq_cst);
    if (tiles_left.load(std::memory_order_seq_cst) > 0) break;
    if (stopping.load(std::memory_order_seq_cst)) break;
    futex_wait(wake_count, seen);
  }
  sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

void ThreadPool::Impl::wake_workers(uint32_t count) {
  if (sleepers.load(std::memory_order_seq_cst) == 0) return;
  wake_count.fetch_add(1, std::memory_order_seq_cst);
  futex_wake(wake_count, count);
}

void ThreadPool::Impl::run_alone(uint32_t count, TileFn tile_fn, void* tile_context) {
  for (uint32_t tile = 0; tile < count; ++tile) tile_fn(tile_context, tile, 0);
}

void ThreadPool::Impl::run_shared(uint32_t count, TileFn tile_fn, void* tile_context) {
  fn = tile_fn;
  context = tile_context;
  tile_count = count;
  tiles_done.store(0, std::memory_order_relaxed);
  tiles_left.store(count, std::memory_order_seq_cst);  // publishes all of the above
  wake_workers(count - 1);                             // one tile is for the owner

  work_off(/*worker=*/0);
  wait_until_done(count);
}

void ThreadPool::Impl::wait_until_done(uint32_t count) {
  const auto all_done = [&] { return tiles_done.load(std::memory_order_acquire) == count; };
  if (spin_until(all_done)) return;

  const TimePoint stall_at = now() + kStallFrom - kSpinMax;
  owner_sleeps.store(true, std::memory_order_seq_cst);
  for (;;) {
    const uint32_t done = tiles_done.load(std::memory_order_seq_cst);
    if (done == count) break;
    const Duration patience = stall_at - now();
    if (patience <= Duration::zero()) {
      wait_out_a_stall(count);
      break;
    }
    futex_wait_for(tiles_done, done, patience);
  }
  owner_sleeps.store(false, std::memory_order_relaxed);
}

// A wait this long has two causes: a worker has no core, or its tile is simply long. Only the first
// is a reason to work alone, and CPU time tells them apart: a worker that computes uses as much of
// it as passes on the wall.
void ThreadPool::Impl::wait_out_a_stall(uint32_t count) {
  sample_cpu();
  const TimePoint begin = now();
  for (;;) {
    const uint32_t done = tiles_done.load(std::memory_order_seq_cst);
    if (done == count) break;
    futex_wait(tiles_done, done);
  }
  const TimePoint end = now();
  const bool somebody_was_busy = most_cpu_used() >= (end - begin) / 2;
  if (somebody_was_busy) return;
  ++stalls;
  if (!may_back_off) return;
  backoff.stalled(end);
  backing_off = true;
}

void ThreadPool::Impl::sample_cpu() {
  for (size_t i = 0; i < cpu_clocks.size(); ++i) cpu_samples[i] = cpu_time(cpu_clocks[i]);
}

// Of any one worker, since the samples were taken.
Duration ThreadPool::Impl::most_cpu_used() {
  Duration most{};
  for (size_t i = 0; i < cpu_clocks.size(); ++i) {
    most = std::max(most, cpu_time(cpu_clocks[i]) - cpu_samples[i]);
  }
  return most;
}

bool ThreadPool::Impl::should_work_alone() {
  if (!backing_off) return false;
  backing_off = backoff.alone(now());
  return backing_off;
}

void ThreadPool::Impl::start_workers(uint32_t count) {
  workers.reserve(count);
  cpu_clocks.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    try {
      workers.emplace_back([this, i] { worker_main(i + 1); });
    } catch (const std::system_error& refused) {  // a limit on threads: fewer are slower, not wrong
      log::warn("cannot start worker thread {} of {}: {}; continuing with {}", i + 1, count,
                refused.what(), i + 1);
      break;
    }
    clockid_t clock = CLOCK_THREAD_CPUTIME_ID;
    ::pthread_getcpuclockid(workers.back().native_handle(), &clock);
    cpu_clocks.push_back(clock);
  }
  cpu_samples.resize(cpu_clocks.size());
}

ThreadPool::ThreadPool(uint32_t threads, SoloBackoff backoff) : impl_(std::make_unique<Impl>()) {
  CHECK(threads >= 1 && threads <= kThreadsMax, "{} threads; must be 1 to {}", threads,
        kThreadsMax);
  impl_->may_back_off = backoff == SoloBackoff::kOn;
  impl_->start_workers(threads - 1);
}

ThreadPool::~ThreadPool() {
  impl_->stopping.store(true, std::memory_order_seq_cst);
  impl_->wake_workers(UINT32_MAX);
  for (std::thread& worker : impl_->workers) worker.join();
}

uint32_t ThreadPool::thread_count() const {
  return static_cast<uint32_t>(impl_->workers.size()) + 1;
}

uint64_t ThreadPool::stall_count() const {
  return impl_->stalls;
}

void ThreadPool::run(uint32_t tile_count, TileFn fn, void* context) {
  Impl& pool = *impl_;
  CHECK(!pool.in_run.load(std::memory_order_relaxed), "ThreadPool::run inside of run");
  pool.in_run.store(true, std::memory_order_relaxed);
  if (tile_count <= 1 || pool.workers.empty() || pool.should_work_alone()) {
    pool.run_alone(tile_count, fn, context);
  } else {
    pool.run_shared(tile_count, fn, context);
  }
  pool.in_run.store(false, std::memory_order_relaxed);
}

}  // namespace pacer::sys
