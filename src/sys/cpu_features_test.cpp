#include "sys/cpu_features.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "sys/cpuid_words.h"

namespace pacer::sys {
namespace {

constexpr uint32_t b(int index) {
  return uint32_t{1} << index;
}

// A CPU and OS with everything.
CpuidWords full() {
  CpuidWords w;
  w.leaf1_ecx = b(12) | b(27) | b(28) | b(29);
  w.leaf7_ebx = b(3) | b(5) | b(8) | b(16) | b(17) | b(30) | b(31);
  w.leaf7_ecx = b(11);
  w.leaf7_edx = b(22) | b(24) | b(25);
  w.leaf7_1_eax = b(4) | b(5);
  w.xcr0 = 0x602e7;
  w.amx_granted = true;
  return w;
}

TEST(CpuFeatures, AFullMachineHasEveryTier) {
  const CpuFeatures f = decode_features(full());
  EXPECT_TRUE(f.avx2 && f.avx512 && f.avx512_vnni && f.avx512_bf16 && f.amx_int8 && f.amx_bf16);
}

TEST(CpuFeatures, AnUnknownMachineHasNone) {
  const CpuFeatures f = decode_features(CpuidWords{});
  EXPECT_FALSE(f.avx2 || f.avx512 || f.avx512_vnni || f.avx512_bf16 || f.amx_int8 || f.amx_bf16);
}

TEST(CpuFeatures, WhatTheOsDoesNotSaveDoesNotCount) {
  CpuidWords w = full();
  w.xcr0 = 0x7;  // ymm, no zmm, no tiles
  CpuFeatures f = decode_features(w);
  EXPECT_TRUE(f.avx2);
  EXPECT_FALSE(f.avx512 || f.avx512_vnni || f.avx512_bf16 || f.amx_int8);

  w.xcr0 = 0xe3;  // zmm state without ymm: no sane OS, but no reason to crash
  EXPECT_FALSE(decode_features(w).avx2 || decode_features(w).avx512);

  w.xcr0 = 0xe7 | 0x20000;  // TILECFG without TILEDATA
  f = decode_features(w);
  EXPECT_TRUE(f.avx512);
  EXPECT_FALSE(has_amx_tiles(w) || f.amx_int8 || f.amx_bf16);
}

TEST(CpuFeatures, TilesThatWereNotGrantedDoNotCount) {
  CpuidWords w = full();
  w.amx_granted = false;
  EXPECT_TRUE(has_amx_tiles(w));
  EXPECT_FALSE(decode_features(w).amx_int8 || decode_features(w).amx_bf16);
  EXPECT_TRUE(decode_features(w).avx512);
}

TEST(CpuFeatures, EveryMemberOfAGroupIsNeeded) {
  for (int index : {12, 28, 29}) {
    CpuidWords w = full();
    w.leaf1_ecx &= ~b(index);
    EXPECT_FALSE(decode_features(w).avx2) << "leaf 1 ecx bit " << index;
    EXPECT_FALSE(decode_features(w).avx512) << "leaf 1 ecx bit " << index;
  }
  for (int index : {16, 17, 30, 31}) {
    CpuidWords w = full();
    w.leaf7_ebx &= ~b(index);
    EXPECT_TRUE(decode_features(w).avx2);
    EXPECT_FALSE(decode_features(w).avx512) << "leaf 7 ebx bit " << index;
    EXPECT_FALSE(decode_features(w).avx512_vnni) << "leaf 7 ebx bit " << index;
  }
}

// The kernel's own list, read from /proc/cpuinfo, must agree with ours.
TEST(CpuFeatures, ThisMachineAgreesWithTheKernel) {
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::string line, flags;
  while (flags.empty() && std::getline(cpuinfo, line)) {
    if (line.rfind("flags", 0) == 0) flags = line + " ";
  }
  if (flags.empty()) GTEST_SKIP() << "/proc/cpuinfo has no flags line here";
  const auto has = [&](const char* name) {
    return flags.find(std::string(" ") + name + " ") != flags.npos;
  };
  const CpuFeatures& f = cpu_features();
  EXPECT_EQ(f.avx2, has("avx2") && has("fma") && has("f16c") && has("bmi1") && has("bmi2"));
  EXPECT_EQ(f.avx512,
            f.avx2 && has("avx512f") && has("avx512dq") && has("avx512bw") && has("avx512vl"));
  EXPECT_EQ(f.avx512_vnni, f.avx512 && has("avx512_vnni"));
  EXPECT_EQ(f.avx512_bf16, f.avx512 && has("avx512_bf16"));
  // Only this way round: the permission may be refused.
  EXPECT_TRUE(!f.amx_int8 || (has("amx_int8") && has("amx_tile")));
  EXPECT_FALSE(f.model_name.empty());
  EXPECT_EQ(&cpu_features(), &f);
}

}  // namespace
}  // namespace pacer::sys
