// A feature counts when the CPU has it AND the OS saves the registers it uses. CPUID alone is not
// enough: a kernel booted with noxsave, or a hypervisor that hides state, leaves instructions that
// fault.
//
// Bit numbers: Intel SDM volume 2A (CPUID), volume 1 chapter 13 (XCR0).
#include "sys/cpu_features.h"

#include "sys/cpuid_words.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <cstring>

namespace pacer::sys {
namespace {

constexpr bool bit(uint64_t word, int index) {
  return (word >> index & 1) != 0;
}

constexpr uint64_t kXcr0Ymm = 0x6;                  // SSE and AVX state
constexpr uint64_t kXcr0Zmm = kXcr0Ymm | 0xe0;      // opmask, upper halves of zmm0-15, zmm16-31
constexpr uint64_t kXcr0Tiles = uint64_t{3} << 17;  // TILECFG and TILEDATA

constexpr bool saves(uint64_t xcr0, uint64_t state) {
  return (xcr0 & state) == state;
}

#if defined(__x86_64__)

uint64_t read_xcr0() {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t{high} << 32) | low;
}

CpuidWords read_cpuid_words() {
  CpuidWords words;
  uint32_t eax, ebx, ecx, edx;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx)) return words;
  words.leaf1_ecx = ecx;
  const bool os_uses_xsave = bit(ecx, 27);
  if (os_uses_xsave) words.xcr0 = read_xcr0();
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) {
    const uint32_t subleaf_max = eax;
    words.leaf7_ebx = ebx;
    words.leaf7_ecx = ecx;
    words.leaf7_edx = edx;
    if (subleaf_max >= 1 && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx))
      words.leaf7_1_eax = eax;
  }
  return words;
}

// Linux hands out the 8 KiB of tile state only to processes that ask, once, for all threads created
// afterwards.
bool request_amx_permission() {
  constexpr int kArchReqXcompPerm = 0x1023;  // asm/prctl.h; written out, as older headers lack it
  constexpr int kXfeatureTiledata = 18;
  return ::syscall(SYS_arch_prctl, kArchReqXcompPerm, kXfeatureTiledata) == 0;
}

std::string read_model_name() {
  uint32_t words[12] = {};
  for (uint32_t i = 0; i < 3; ++i) {
    uint32_t* w = words + 4 * i;
    if (!__get_cpuid(0x80000002 + i, &w[0], &w[1], &w[2], &w[3])) return "unknown";
  }
  char text[sizeof words + 1] = {};  // the brand string is not always terminated
  std::memcpy(text, words, sizeof words);
  std::string name(text);
  name.erase(0, name.find_first_not_of(' '));  // some are padded on the left
  name.erase(name.find_last_not_of(' ') + 1);
  return name.empty() ? "unknown" : name;
}

CpuFeatures detect() {
  CpuidWords words = read_cpuid_words();
  if (has_amx_tiles(words)) words.amx_granted = request_amx_permission();
  CpuFeatures features = decode_features(words);
  features.model_name = read_model_name();
  return features;
}

#else

CpuFeatures detect() {
  CpuFeatures features;
  features.model_name = "unknown";
  return features;
}

#endif

}  // namespace

bool has_amx_tiles(const CpuidWords& words) {
  const bool amx_tile = bit(words.leaf7_edx, 24);
  return amx_tile && saves(words.xcr0, kXcr0Tiles);
}

CpuFeatures decode_features(const CpuidWords& words) {
  CpuFeatures features;
  const bool fma = bit(words.leaf1_ecx, 12);
  const bool avx = bit(words.leaf1_ecx, 28);
  const bool f16c = bit(words.leaf1_ecx, 29);
  const bool bmi1 = bit(words.leaf7_ebx, 3);
  const bool avx2 = bit(words.leaf7_ebx, 5);
  const bool bmi2 = bit(words.leaf7_ebx, 8);
  features.avx2 = avx && avx2 && fma && f16c && bmi1 && bmi2 && saves(words.xcr0, kXcr0Ymm);

  const bool f = bit(words.leaf7_ebx, 16);
  const bool dq = bit(words.leaf7_ebx, 17);
  const bool bw = bit(words.leaf7_ebx, 30);
  const bool vl = bit(words.leaf7_ebx, 31);
  // The AVX-512 tier is compiled with the AVX2 group too, so it needs both.
  features.avx512 = features.avx2 && f && dq && bw && vl && saves(words.xcr0, kXcr0Zmm);
  features.avx512_vnni = features.avx512 && bit(words.leaf7_ecx, 11);
  features.avx512_bf16 = features.avx512 && bit(words.leaf7_1_eax, 5);

  const bool tiles = has_amx_tiles(words) && words.amx_granted;
  features.amx_bf16 = tiles && bit(words.leaf7_edx, 22);
  features.amx_int8 = tiles && bit(words.leaf7_edx, 25);
  return features;
}

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = detect();
  return features;
}

}  // namespace pacer::sys
