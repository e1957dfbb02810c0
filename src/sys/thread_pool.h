// Persistent workers that share the tiles of one operation at a time.
//
// An operation is cut into tiles claimed from an atomic counter, so a worker that the OS preempts
// delays one tile and not the step. Waiting spins briefly (about 40 us), then sleeps on a futex.
// When a barrier has to wait for a worker that does not get a core (> 0.5 ms), the pool runs the
// next operations on the calling thread alone for a while (10 ms, doubling to 200 ms), then tries
// again: with a busy neighbour on 2 cores that keeps half of the quiet speed where a spinning pool
// keeps a few per cent (measured; reasons in docs/threads.md).
//
// One owner thread calls run(); it works too. Not re-entrant. FTZ/DAZ are set in every worker and
// must be set by the owner (sys::set_denormals_to_zero), since MXCSR is per thread.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace pacer::sys {

void set_denormals_to_zero();  // this thread

class ThreadPool {
 public:
  using TileFn = void (*)(void* context, uint32_t tile, uint32_t worker);

  enum class SoloBackoff {
    kOn,
    kOff
  };  // kOff: for cores that are ours alone, and for tests and measurements

  // threads: workers including the caller, 1 to 1024. Where the machine refuses to start so many,
  // the pool warns and has fewer: ask thread_count().
  explicit ThreadPool(uint32_t threads, SoloBackoff backoff = SoloBackoff::kOn);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  uint32_t thread_count() const;

  // Barriers that waited for a worker without a core, since the start. Asked by the owner, between
  // runs.
  uint64_t stall_count() const;

  // Calls fn(context, tile, worker) once for each tile in [0, tile_count), worker < thread_count();
  // returns when all are done, and what they wrote is visible to the caller. Allocates nothing.
  void run(uint32_t tile_count, TileFn fn, void* context);

  // f(tile, worker)
  template <class F>
  void parallel_for(uint32_t tile_count, F&& f) {
    run(
        tile_count,
        [](void* context, uint32_t tile, uint32_t worker) {
          (*static_cast<std::remove_reference_t<F>*>(context))(tile, worker);
        },
        &f);
  }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pacer::sys
