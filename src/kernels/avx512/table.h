// The tables of the two AVX-512 tiers, with and without VNNI: the AVX2 one with what is better in
// 512 bits. Included by dispatch.cpp alone, so that no std header is compiled with AVX-512 flags.
#pragma once

#include "kernels/avx2/table.h"
#include "kernels/avx512/kernels.h"
#include "kernels/avx512vnni/kernels.h"
#include "kernels/kernel_table.h"

namespace pacer::kernels::avx512 {

constexpr KernelTable without_vnni() {
  KernelTable table = avx2::kTable;
  table.tier = IsaTier::kAvx512NoVnni;
  table.name = "avx512-novnni";
  table.gemm = gemm;
  table.silu_mul = silu_mul;
  table.gelu_mul = gelu_mul;
  table.soft_cap = soft_cap;
  table.attend_scratch_floats = attend_scratch_floats;
  table.attend = attend;
  return table;
}

constexpr KernelTable with_vnni() {
  KernelTable table = without_vnni();
  table.tier = IsaTier::kAvx512;
  table.name = "avx512";
  table.gemm = avx512vnni::gemm;
  return table;
}

constexpr KernelTable kTableWithoutVnni = without_vnni();
constexpr KernelTable kTable = with_vnni();

}  // namespace pacer::kernels::avx512
