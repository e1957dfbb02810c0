// Ceiling of AVX-512 VNNI: int8 products. Timed by machine_peaks.cpp.

#include "kernels/peak_loops.h"

#include <immintrin.h>

namespace pacer::kernels::avx512vnni {

uint64_t peak_int8(uint64_t rounds) {
  __m512i sum[12];
#pragma GCC unroll 12
  for (uint32_t j = 0; j < 12; ++j) sum[j] = _mm512_setzero_si512();
  const __m512i a = _mm512_set1_epi8(3);
  const __m512i b = _mm512_set1_epi8(-5);
  for (uint64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (uint32_t j = 0; j < 12; ++j) {
      sum[j] = _mm512_dpbusd_epi32(sum[j], a, b);
      asm volatile("" : "+v"(sum[j]));
    }
  }
  return rounds * 12 * 64 * 2;
}

}  // namespace pacer::kernels::avx512vnni
