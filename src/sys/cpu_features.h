// What this CPU and this OS together allow: CPUID bits, gated by XCR0 (and, for AMX, by arch_prctl
// permission).
//
// The only place that asks. Feature groups, not single bits, because kernels come in tiers.
#pragma once

#include <string>

namespace pacer::sys {

struct CpuFeatures {
  std::string model_name;  // as the CPU says it, or "unknown"
  bool avx2 = false;       // AVX2 + FMA + F16C + BMI2, OS saves ymm
  bool avx512 = false;     // AVX-512 F BW DQ VL, OS saves zmm
  bool avx512_vnni = false;
  bool avx512_bf16 = false;
  bool amx_int8 =
      false;  // AMX-TILE + AMX-INT8, OS saves tiles and has granted them to this process
  bool amx_bf16 = false;
};

// Detected once, on the first call; call it before any worker thread exists (the AMX permission is
// per process).
const CpuFeatures& cpu_features();

}  // namespace pacer::sys
