// The words of CPUID and XCR0 that the kernel tiers depend on, and what they mean together.
//
// Split from asking the machine so that tests can try CPUs and operating systems that are not here.
#pragma once

#include <cstdint>

#include "sys/cpu_features.h"

namespace pacer::sys {

struct CpuidWords {
  uint32_t leaf1_ecx = 0;
  uint32_t leaf7_ebx = 0;
  uint32_t leaf7_ecx = 0;
  uint32_t leaf7_edx = 0;
  uint32_t leaf7_1_eax = 0;
  uint64_t xcr0 = 0;         // register files that the OS saves; 0 when it has not enabled XGETBV
  bool amx_granted = false;  // the OS lets this process use tile data
};

// Everything but model_name.
CpuFeatures decode_features(const CpuidWords& words);

// Whether it is worth asking the OS for tile data: the CPU has AMX tiles and the OS saves them.
bool has_amx_tiles(const CpuidWords& words);

}  // namespace pacer::sys
