// The measured ceilings name the units that the CPU has. How fast they are is the machine's affair.

#include "kernels/machine_peaks.h"

#include <gtest/gtest.h>

#include "kernels/peak_loops.h"
#include "sys/cpu_features.h"

namespace pacer::kernels {
namespace {

TEST(MachinePeaks, AreMeasuredByTheWidestUnitsThereAre) {
  const sys::CpuFeatures& cpu = sys::cpu_features();
  sys::ThreadPool pool(2);
  const MachinePeaks peaks = measure_machine_peaks(pool);

  EXPECT_GT(peaks.read_bytes_per_s, 1e8);
  EXPECT_LT(peaks.read_bytes_per_s, 1e13);  // more would mean that the reads were optimised away
  EXPECT_GT(peaks.f32_flops_per_s, 1e8);
  EXPECT_LT(peaks.f32_flops_per_s, 1e14);
  EXPECT_GT(peaks.int8_ops_per_s, peaks.f32_flops_per_s / 4);
  EXPECT_LT(peaks.int8_ops_per_s, 1e15);
  EXPECT_EQ(peaks.int8_unit == "AMX", cpu.amx_int8);
  EXPECT_EQ(peaks.bf16_unit == "none", !cpu.amx_bf16 && !cpu.avx512_bf16);
  EXPECT_EQ(peaks.bf16_unit == "none", peaks.bf16_flops_per_s == 0);
  EXPECT_EQ(peaks.f32_unit == "SSE2", !cpu.avx2);
}

TEST(PeakLoops, CountEveryByteOfABufferOfWholeLines) {
  alignas(64) static char buffer[1 << 16];
  EXPECT_EQ(scalar::read_all(buffer, sizeof buffer), sizeof buffer);
  if (!sys::cpu_features().avx2) GTEST_SKIP() << "this CPU has no AVX2";
  EXPECT_EQ(avx2::read_all(buffer, sizeof buffer), sizeof buffer);
}

}  // namespace
}  // namespace pacer::kernels
