// Times the loops of peak_loops.h on all threads of a pool at once, and keeps the best of a few
// short runs: a neighbour can only make a run slower.
//
// Arithmetic runs are some 10 ms each. Reads go over a buffer far larger than the caches, once on
// huge pages and once on plain ones, since that alone can be a factor of two.

#include "kernels/machine_peaks.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <new>

#include "base/clock.h"
#include "kernels/peak_loops.h"
#include "sys/cpu_features.h"
#include "sys/memory.h"

namespace pacer::kernels {

namespace {

using PeakLoop = uint64_t (*)(uint64_t rounds);
using ReadLoop = uint64_t (*)(const void* buffer, size_t bytes);

constexpr uint32_t kRuns = 5;         // best of
constexpr double kRunSeconds = 0.01;  // of one arithmetic run
constexpr size_t kReadBytes =
    512ull << 20;  // five times what behaves like L3 on the largest machine we measured
constexpr size_t kReadTileBytes = 4ull << 20;  // each thread reads long sequential stretches
constexpr uint64_t kTrialRounds = 2000;

struct Unit {
  double ops_per_s = 0;
  std::string name = "none";
};

// Operations per second of one run with every thread busy.
double run_once(sys::ThreadPool& pool, PeakLoop loop, uint64_t rounds) {
  const SystemClock clock;
  const uint32_t threads = pool.thread_count();
  uint64_t ops_of_one = 0;
  const TimePoint start = clock.now();
  pool.parallel_for(threads, [&](uint32_t tile, uint32_t) {
    const uint64_t ops = loop(rounds);
    if (tile == 0) ops_of_one = ops;
  });
  const double elapsed = seconds(clock.now() - start);
  return static_cast<double>(ops_of_one) * threads / std::max(elapsed, 1e-9);
}

Unit measure_unit(sys::ThreadPool& pool, PeakLoop loop, const char* name) {
  const SystemClock clock;
  loop(kTrialRounds);  // wakes the unit up: wide ones are slow for the first microseconds
  const TimePoint start = clock.now();
  loop(kTrialRounds);
  const double trial = std::max(seconds(clock.now() - start), 1e-7);
  const uint64_t rounds =
      std::max<uint64_t>(kTrialRounds, static_cast<uint64_t>(kTrialRounds * (kRunSeconds / trial)));

  Unit unit{0, name};
  for (uint32_t i = 0; i < kRuns; ++i) {
    unit.ops_per_s = std::max(unit.ops_per_s, run_once(pool, loop, rounds));
  }
  return unit;
}

const Unit& faster(const Unit& a, const Unit& b) {
  return b.ops_per_s > a.ops_per_s ? b : a;
}

Unit measure_int8(sys::ThreadPool& pool, const sys::CpuFeatures& cpu) {
  if (cpu.amx_int8) return measure_unit(pool, amx::peak_int8, "AMX");
  if (cpu.avx512_vnni) return measure_unit(pool, avx512vnni::peak_int8, "AVX-512 VNNI");
  if (cpu.avx2) return measure_unit(pool, avx2::peak_int8, "AVX2 maddubs");
  return measure_unit(pool, scalar::peak_int8, "SSE2");
}

Unit measure_bf16(sys::ThreadPool& pool, const sys::CpuFeatures& cpu) {
  if (cpu.amx_bf16) return measure_unit(pool, amx::peak_bf16, "AMX");
  if (cpu.avx512_bf16) return measure_unit(pool, amx::peak_avx512_bf16, "AVX-512 BF16");
  return {};
}

// AVX-512 is not faster than AVX2 everywhere (one 512-bit unit on some), so both are tried.
Unit measure_f32(sys::ThreadPool& pool, const sys::CpuFeatures& cpu) {
  Unit best = cpu.avx2 ? measure_unit(pool, avx2::peak_f32, "AVX2 FMA")
                       : measure_unit(pool, scalar::peak_f32, "SSE2");
  if (cpu.avx512) best = faster(best, measure_unit(pool, avx512::peak_f32, "AVX-512 FMA"));
  return best;
}

// Best bytes per second over a few passes. Writes the buffer first: a page never written is not
// memory yet.
double measure_read(sys::ThreadPool& pool, std::byte* buffer, size_t bytes, ReadLoop read) {
  const SystemClock clock;
  const uint32_t tiles = static_cast<uint32_t>(bytes / kReadTileBytes);
  pool.parallel_for(tiles, [&](uint32_t tile, uint32_t) {
    std::memset(buffer + tile * kReadTileBytes, 1, kReadTileBytes);
  });

  double best = 0;
  for (uint32_t i = 0; i < kRuns; ++i) {
    const TimePoint start = clock.now();
    pool.parallel_for(tiles, [&](uint32_t tile, uint32_t) {
      read(buffer + tile * kReadTileBytes, kReadTileBytes);
    });
    const double elapsed = seconds(clock.now() - start);
    best = std::max(best, static_cast<double>(tiles) * kReadTileBytes / std::max(elapsed, 1e-9));
  }
  return best;
}

void measure_memory(sys::ThreadPool& pool, const sys::CpuFeatures& cpu, MachinePeaks& peaks) {
  const ReadLoop read = cpu.avx2 ? avx2::read_all : scalar::read_all;
  const uint64_t spare = sys::memory_limits().available_bytes / 4;
  const size_t bytes = std::max(
      kReadTileBytes, std::min<uint64_t>(kReadBytes, spare) / kReadTileBytes * kReadTileBytes);

  double plain = 0;
  {
    // 64-byte aligned, not 2 MiB aligned and without a request for huge pages.
    auto free_it = [](std::byte* p) { ::operator delete (p, std::align_val_t{64}); };
    std::unique_ptr<std::byte, decltype(free_it)> buffer(
        static_cast<std::byte*>(::operator new (bytes, std::align_val_t{64}, std::nothrow)),
        free_it);
    if (buffer) plain = measure_read(pool, buffer.get(), bytes, read);
  }
  double huge = 0;
  if (auto buffer = sys::HugeBuffer::allocate(bytes, "measuring the read bandwidth")) {
    huge = measure_read(pool, buffer->data(), bytes, read);
  }
  peaks.huge_pages = huge > plain;
  peaks.read_bytes_per_s = std::max(huge, plain);
}

}  // namespace

MachinePeaks measure_machine_peaks(sys::ThreadPool& pool) {
  const sys::CpuFeatures& cpu = sys::cpu_features();
  MachinePeaks peaks;
  measure_memory(pool, cpu, peaks);

  const Unit int8 = measure_int8(pool, cpu);
  peaks.int8_ops_per_s = int8.ops_per_s;
  peaks.int8_unit = int8.name;

  const Unit bf16 = measure_bf16(pool, cpu);
  peaks.bf16_flops_per_s = bf16.ops_per_s;
  peaks.bf16_unit = bf16.name;

  const Unit f32 = measure_f32(pool, cpu);
  peaks.f32_flops_per_s = f32.ops_per_s;
  peaks.f32_unit = f32.name;
  return peaks;
}

}  // namespace pacer::kernels
