// Measured ceilings of this machine: what memory and arithmetic units can do, by the widest units
// there are.
//
// These are the denominators of MBU and MFU (docs: "never CPU %"). A second or two in total.
#pragma once

#include <string>

#include "sys/thread_pool.h"

namespace pacer::kernels {

struct MachinePeaks {
  double read_bytes_per_s =
      0;  // sequential reads of a buffer far larger than the caches, huge pages tried
  bool huge_pages = false;      // whether the best figure was on huge pages
  double int8_ops_per_s = 0;    // multiply and add count as two
  std::string int8_unit;        // "AMX", "AVX-512 VNNI", "AVX2 maddubs"
  double bf16_flops_per_s = 0;  // 0 when no unit has bf16
  std::string bf16_unit;        // "AMX", "AVX-512 BF16" or "none"
  double f32_flops_per_s = 0;
  std::string f32_unit;
};

MachinePeaks measure_machine_peaks(sys::ThreadPool& pool);

}  // namespace pacer::kernels
