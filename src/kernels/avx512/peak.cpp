// Ceiling of AVX-512: f32 multiply-adds. Timed by machine_peaks.cpp.

#include "kernels/peak_loops.h"

#include <immintrin.h>

namespace pacer::kernels::avx512 {

uint64_t peak_f32(uint64_t rounds) {
  __m512 sum[12];
#pragma GCC unroll 12
  for (uint32_t j = 0; j < 12; ++j) sum[j] = _mm512_set1_ps((float)j);
  __m512 factor = _mm512_set1_ps(0.999f);
  for (uint64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (uint32_t j = 0; j < 12; ++j) {
      sum[j] = _mm512_fmadd_ps(sum[j], factor, factor);
      asm volatile("" : "+v"(sum[j]));
    }
  }
  return rounds * 12 * 16 * 2;
}

}  // namespace pacer::kernels::avx512
