// Ceilings of AVX2: f32 multiply-adds, int8 products, sequential reads. Timed by machine_peaks.cpp.

#include "kernels/peak_loops.h"

#include <immintrin.h>

namespace pacer::kernels::avx2 {

uint64_t peak_f32(uint64_t rounds) {
  __m256 sum[12];  // 12 chains: 2 per cycle with 4 to 5 cycles of latency
#pragma GCC unroll 12
  for (uint32_t j = 0; j < 12; ++j) sum[j] = _mm256_set1_ps((float)j);
  __m256 factor = _mm256_set1_ps(0.999f);
  for (uint64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (uint32_t j = 0; j < 12; ++j) {
      sum[j] = _mm256_fmadd_ps(sum[j], factor, factor);
      asm volatile("" : "+x"(sum[j]));
    }
  }
  return rounds * 12 * 8 * 2;
}

uint64_t peak_int8(uint64_t rounds) {
  __m256i sum[8];
#pragma GCC unroll 8
  for (uint32_t j = 0; j < 8; ++j) sum[j] = _mm256_setzero_si256();
  __m256i a = _mm256_set1_epi8(3);
  __m256i b = _mm256_set1_epi8(-5);
  const __m256i ones = _mm256_set1_epi16(1);
  for (uint64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 8
    for (uint32_t j = 0; j < 8; ++j) {
      asm volatile("" : "+x"(a), "+x"(b));
      const __m256i pairs = _mm256_maddubs_epi16(a, b);
      sum[j] = _mm256_add_epi32(sum[j], _mm256_madd_epi16(pairs, ones));
      asm volatile("" : "+x"(sum[j]));
    }
  }
  return rounds * 8 * 32 * 2;
}

uint64_t read_all(const void* buffer, size_t bytes) {
  constexpr size_t kAhead = 4096;  // the hardware prefetcher alone: 12 % less (measured)
  const char* at = (const char*)buffer;
  __m256i any[4];
#pragma GCC unroll 4
  for (uint32_t j = 0; j < 4; ++j) any[j] = _mm256_setzero_si256();
  for (size_t i = 0; i + 128 <= bytes; i += 128) {
    _mm_prefetch(at + i + kAhead, _MM_HINT_T0);
    _mm_prefetch(at + i + kAhead + 64, _MM_HINT_T0);
#pragma GCC unroll 4
    for (uint32_t j = 0; j < 4; ++j) {
      any[j] = _mm256_or_si256(any[j], _mm256_load_si256((const __m256i*)(at + i + 32 * j)));
    }
  }
  asm volatile("" : : "x"(any[0]), "x"(any[1]), "x"(any[2]), "x"(any[3]));
  return bytes / 128 * 128;
}

}  // namespace pacer::kernels::avx2
