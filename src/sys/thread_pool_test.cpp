#include "sys/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <ctime>
#include <limits>
#include <numeric>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "sys/solo_backoff.h"

namespace pacer::sys {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr auto kNoBackoff = ThreadPool::SoloBackoff::kOff;  // so that work is really shared

// Tiles long enough for another worker to get one.
void spin_for(std::chrono::nanoseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

std::chrono::nanoseconds thread_cpu_time() {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

TEST(ThreadPool, EveryTileIsDoneExactlyOnce) {
  for (uint32_t threads : {1u, 2u, 3u, 8u}) {
    ThreadPool pool(threads, kNoBackoff);
    EXPECT_EQ(pool.thread_count(), threads);
    for (uint32_t tiles : {0u, 1u, 2u, 3u, 7u, 8u, 9u, 64u, 1000u}) {
      for (int round = 0; round < 20; ++round) {
        std::vector<std::atomic<int>> done(tiles);
        std::atomic<bool> worker_in_range{true};
        pool.parallel_for(tiles, [&](uint32_t tile, uint32_t worker) {
          ++done[tile];
          if (worker >= threads) worker_in_range = false;
        });
        for (uint32_t t = 0; t < tiles; ++t)
          ASSERT_EQ(done[t], 1) << threads << " threads, tile " << t;
        ASSERT_TRUE(worker_in_range);
      }
    }
  }
}

// Plain memory, written by workers and read by the owner, and the other way round: for
// ThreadSanitizer too.
TEST(ThreadPool, WritesAreVisibleInBothDirections) {
  ThreadPool pool(4, kNoBackoff);
  std::vector<uint64_t> values(97);
  for (uint64_t round = 0; round < 1000; ++round) {
    std::fill(values.begin(), values.end(), round);  // the owner writes
    pool.parallel_for(static_cast<uint32_t>(values.size()), [&](uint32_t tile, uint32_t) {
      values[tile] = 3 * values[tile] + tile;
      if (tile % 16 == 0) spin_for(microseconds(1));
    });
    for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], 3 * round + i);
  }
}

// The next operation has another function, context and size each time: a late worker that mixed two
// would show.
TEST(ThreadPool, ALateWorkerNeverMixesTwoOperations) {
  constexpr uint64_t kSeed = 11;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  struct Operation {
    uint32_t size;
    std::atomic<uint64_t> sum{0};
    std::atomic<uint32_t> outside{0};
    std::atomic<uint32_t> by_others{0};

    void count(uint32_t tile, uint32_t worker, uint64_t factor) {
      sum += factor * (tile + 1);
      if (tile >= size) ++outside;
      if (worker != 0) ++by_others;
      spin_for(std::chrono::nanoseconds(300));
    }
  };
  const ThreadPool::TileFn plain = [](void* context, uint32_t tile, uint32_t worker) {
    static_cast<Operation*>(context)->count(tile, worker, 1);
  };
  const ThreadPool::TileFn tenfold = [](void* context, uint32_t tile, uint32_t worker) {
    static_cast<Operation*>(context)->count(tile, worker, 10);
  };
  Rng rng(kSeed);
  ThreadPool pool(4, kNoBackoff);
  uint64_t by_others = 0;
  for (int round = 0; round < 20'000; ++round) {
    auto operation =
        std::make_unique<Operation>();  // freed at once: a late use is a use after free
    operation->size = static_cast<uint32_t>(rng.below(6));
    const bool ten = rng.below(2) == 1;
    pool.run(operation->size, ten ? tenfold : plain, operation.get());
    const uint64_t n = operation->size;
    ASSERT_EQ(operation->sum, n * (n + 1) / 2 * (ten ? 10 : 1)) << "round " << round;
    ASSERT_EQ(operation->outside, 0u);
    by_others += operation->by_others;
  }
  EXPECT_GT(by_others, 0u);  // or nothing was tested
}

TEST(ThreadPool, SurvivesTwoHundredThousandSmallRuns) {
  ThreadPool pool(2, kNoBackoff);
  uint64_t by_others = 0;
  for (uint32_t round = 0; round < 200'000; ++round) {
    std::atomic<uint32_t> done{0}, others{0};
    const uint32_t tiles = round % 5;
    pool.parallel_for(tiles, [&](uint32_t, uint32_t worker) {
      done.fetch_add(1, std::memory_order_relaxed);
      if (worker != 0) others.fetch_add(1, std::memory_order_relaxed);
    });
    ASSERT_EQ(done, tiles) << "round " << round;
    by_others += others;
  }
  EXPECT_GT(by_others, 0u);
}

// Pauses of every length around the spin bound, so that workers are caught spinning, falling asleep
// and asleep; each tile waits for another thread to be in one too, so a wake that is lost would
// hang.
TEST(ThreadPool, NoWakeIsLostAroundTheMomentOfFallingAsleep) {
  constexpr uint64_t kSeed = 5;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  Rng rng(kSeed);
  ThreadPool pool(2, kNoBackoff);
  for (int round = 0; round < 2000; ++round) {
    spin_for(microseconds(rng.below(80)));
    std::atomic<uint32_t> inside{0};
    pool.parallel_for(2, [&](uint32_t, uint32_t) {
      ++inside;
      while (inside < 2) std::this_thread::yield();
    });
    ASSERT_EQ(inside, 2u) << "round " << round;
  }
}

TEST(ThreadPool, EndsWithWorkersAsleepSpinningOrNeverUsed) {
  for (int round = 0; round < 200; ++round) {
    ThreadPool never_used(3);
    ThreadPool used(3);
    used.parallel_for(8, [](uint32_t, uint32_t) {});
    if (round % 4 == 0) std::this_thread::sleep_for(milliseconds(1));  // asleep
  }
}

TEST(ThreadPool, ManyMoreThreadsThanCoresAreOnlySlower) {
  for (auto backoff : {ThreadPool::SoloBackoff::kOn, ThreadPool::SoloBackoff::kOff}) {
    ThreadPool pool(8, backoff);
    std::vector<uint64_t> sums(8 * 16);  // one cache line for each worker
    uint64_t expected = 0;
    for (uint32_t round = 0; round < 200; ++round) {
      pool.parallel_for(33, [&](uint32_t tile, uint32_t worker) {
        sums[worker * 16] += tile + round;
        spin_for(microseconds(1));
      });
      expected += 33 * 32 / 2 + 33 * round;
    }
    EXPECT_EQ(std::accumulate(sums.begin(), sums.end(), uint64_t{0}), expected);
  }
}

TEST(ThreadPool, TwoPoolsDoNotDisturbEachOther) {
  const auto use = [](uint64_t* sum) {
    ThreadPool pool(2, kNoBackoff);
    for (int round = 0; round < 2000; ++round) {
      std::atomic<uint64_t> part{0};
      pool.parallel_for(4, [&](uint32_t tile, uint32_t) {
        part += tile;
        spin_for(std::chrono::nanoseconds(300));
      });
      *sum += part;
    }
  };
  uint64_t a = 0, b = 0;
  std::thread other([&] { use(&a); });
  use(&b);
  other.join();
  EXPECT_EQ(a, 12'000u);
  EXPECT_EQ(b, 12'000u);
}

TEST(ThreadPoolDeathTest, MisuseIsABug) {
  EXPECT_DEATH(ThreadPool(0), "0 threads; must be 1 to 1024");
  EXPECT_DEATH(
      {
        ThreadPool pool(1);
        pool.parallel_for(
            1, [&](uint32_t, uint32_t) { pool.parallel_for(1, [](uint32_t, uint32_t) {}); });
      },
      "run inside of run");
}

// One operation of two tiles in which the worker straggles, from when the owner is done with its
// own.
struct Straggle {
  bool happened = false;  // the worker got a tile
  milliseconds
      late{};  // from the end of straggling to the end of run(): the owner's own want of a core
  double cpu_share = 0;  // of the straggling time that the worker ran
};

template <class StraggleFn>
Straggle straggle_in(ThreadPool& pool, StraggleFn straggle) {
  Straggle result;
  std::atomic<bool> worker_came{false}, owner_done{false};
  std::chrono::steady_clock::time_point end;
  pool.parallel_for(2, [&](uint32_t, uint32_t worker) {
    if (worker == 0) {
      const auto give_up = std::chrono::steady_clock::now() + milliseconds(50);
      while (!worker_came && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
      owner_done = true;
      return;
    }
    worker_came = true;
    while (!owner_done) std::this_thread::yield();
    const auto begin = std::chrono::steady_clock::now();
    const auto cpu_begin = thread_cpu_time();
    straggle();
    end = std::chrono::steady_clock::now();
    result.cpu_share = std::chrono::duration<double>(thread_cpu_time() - cpu_begin) / (end - begin);
  });
  result.happened = worker_came;
  if (result.happened) {
    result.late = std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - end);
  }
  return result;
}

// A busy machine may hide a stall (the owner has no core either when it should wait), so some tries
// are allowed.
TEST(ThreadPool, AWorkerThatDoesNotRunIsAStallAndIsThenLeftAlone) {
  int conclusive = 0;
  for (int attempt = 0; attempt < 100 && conclusive < 5; ++attempt) {
    ThreadPool pool(2);
    straggle_in(pool, [] { std::this_thread::sleep_for(milliseconds(5)); });
    if (pool.stall_count() == 0) continue;
    const auto stalled_before = std::chrono::steady_clock::now();
    std::atomic<bool> shared{false};
    pool.parallel_for(4, [&](uint32_t, uint32_t worker) {
      if (worker != 0) shared = true;
      // Offers the worker a core and time to come.
      const auto end = std::chrono::steady_clock::now() + milliseconds(1);
      while (!shared && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    });
    // The ten milliseconds began before stalled_before: after they may have passed nothing is
    // shown.
    if (std::chrono::steady_clock::now() - stalled_before > milliseconds(8)) continue;
    ++conclusive;
    EXPECT_FALSE(shared);
  }
  EXPECT_GT(conclusive, 0) << "100 sleeping workers and no stall that could be observed";
}

TEST(ThreadPool, AWorkerThatOnlyHasMoreToDoIsNoStall) {
  int conclusive = 0;
  for (int attempt = 0; attempt < 30 && conclusive < 3; ++attempt) {
    ThreadPool pool(2);
    const Straggle s = straggle_in(pool, [] { spin_for(milliseconds(10)); });
    if (!s.happened || s.cpu_share < 0.9 || s.late > milliseconds(1)) continue;  // others disturbed
    ++conclusive;
    EXPECT_EQ(pool.stall_count(), 0u);
  }
  if (conclusive == 0) GTEST_SKIP() << "the machine is too busy to tell a long tile from a stall";
}

TEST(BackoffClock, BeginsAtTenMillisecondsAndDoublesToTwoHundred) {
  BackoffClock backoff;
  TimePoint t{std::chrono::hours(1)};
  EXPECT_FALSE(backoff.alone(t));
  for (int expected_ms : {10, 20, 40, 80, 160, 200, 200}) {
    backoff.stalled(t);
    EXPECT_TRUE(backoff.alone(t + milliseconds(expected_ms) - microseconds(1))) << expected_ms;
    EXPECT_FALSE(backoff.alone(t + milliseconds(expected_ms))) << expected_ms;
    t += milliseconds(expected_ms) + milliseconds(4);  // shares for 4 ms, then stalls again
  }
}

TEST(BackoffClock, BeginsAgainAfterAGoodStretch) {
  BackoffClock backoff;
  TimePoint t{std::chrono::hours(1)};
  backoff.stalled(t);  // alone for 10 ms
  t += milliseconds(11);
  backoff.stalled(t);          // 20 ms
  t += milliseconds(20 + 20);  // shared for as long as that: good
  backoff.stalled(t);
  EXPECT_TRUE(backoff.alone(t + milliseconds(9)));
  EXPECT_FALSE(backoff.alone(t + milliseconds(10)));
}

#if defined(__x86_64__)
TEST(Denormals, AreZeroInEveryThreadOfThePool) {
  set_denormals_to_zero();
  ThreadPool pool(4);
  std::atomic<int> not_flushed{0};
  for (int round = 0; round < 100; ++round) {
    pool.parallel_for(16, [&](uint32_t, uint32_t) {
      volatile float tiny = std::numeric_limits<float>::min();
      volatile float half = tiny * 0.5f;  // a denormal, unless flushed
      if (half != 0.0f) ++not_flushed;
      uint32_t bits;
      const float copy = half;
      std::memcpy(&bits, &copy, sizeof bits);
      if (bits != 0) ++not_flushed;
    });
  }
  EXPECT_EQ(not_flushed, 0);
}
#endif

}  // namespace
}  // namespace pacer::sys
