// The inner loops of attention: up to 6 query rows against one or two KV blocks, all sums in
// registers.
//
// Written for both forms of a block: f16 as stored (Value = uint16_t), f32 as widened. Only the f16
// form prefetches: the widened one is in L1, and its source was read a moment ago.
#pragma once

#include <immintrin.h>

#include "kernels/avx2/simd.h"

namespace pacer::kernels::avx2 {

enum : uint32_t {
  kStepBlocks = 4,  // KV blocks between two updates of the softmax
  kStepTokens = kStepBlocks * kKvBlockTokens,
  kRegisterRows = 6,  // query rows whose sums stay in registers
};

static inline void prefetch(const void* at) {
  _mm_prefetch((const char*)at, _MM_HINT_T0);
}

// Eight values of a block: f16 as stored, or f32 as widened.
static inline __m256 load8(const uint16_t* at) {
  return load_f16(at);
}
static inline __m256 load8(const float* at) {
  return _mm256_load_ps(at);
}

static inline void widen(const uint16_t* from, uint32_t count, float* to) {
  for (uint32_t i = 0; i < count; i += 8) _mm256_store_ps(to + i, load_f16(from + i));
}

// scores[r][0 .. 16 * kBlocks) = q[r] . K for kRows rows and kBlocks blocks at a time. Of what
// `ahead` points to, 32 bytes are prefetched for every dimension and block.
template <uint32_t kRows, uint32_t kBlocks, class Value>
static void score_rows(const float* q, uint32_t head_dim, const Value* const* k,
                       const uint16_t* const* ahead, float* scores) {
  __m256 low[kRows][kBlocks];
  __m256 high[kRows][kBlocks];
#pragma GCC unroll 8
  for (uint32_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (uint32_t b = 0; b < kBlocks; ++b) low[r][b] = high[r][b] = _mm256_setzero_ps();
  }
  for (uint32_t d = 0; d < head_dim; ++d) {
#pragma GCC unroll 2
    for (uint32_t b = 0; b < kBlocks; ++b) {
      if (sizeof(Value) == 2 && d % 2 == 0) prefetch(ahead[b] + d * kKvBlockTokens);
      const __m256 k_low = load8(k[b] + d * kKvBlockTokens);
      const __m256 k_high = load8(k[b] + d * kKvBlockTokens + 8);
#pragma GCC unroll 8
      for (uint32_t r = 0; r < kRows; ++r) {
        const __m256 q_d = _mm256_broadcast_ss(q + (size_t)r * head_dim + d);
        low[r][b] = _mm256_fmadd_ps(q_d, k_low, low[r][b]);
        high[r][b] = _mm256_fmadd_ps(q_d, k_high, high[r][b]);
      }
    }
  }
#pragma GCC unroll 8
  for (uint32_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (uint32_t b = 0; b < kBlocks; ++b) {
      _mm256_store_ps(scores + r * kStepTokens + b * kKvBlockTokens, low[r][b]);
      _mm256_store_ps(scores + r * kStepTokens + b * kKvBlockTokens + 8, high[r][b]);
    }
  }
}

// acc[r][d..d+8*kVectors) += sum of p[r][t] * V[t][d..] over tokens [begin, end), in order.
template <uint32_t kRows, uint32_t kVectors, class Value>
static inline __attribute__((always_inline)) void add_values(const float* p, uint32_t begin,
                                                             uint32_t end, const Value* v,
                                                             uint32_t head_dim,
                                                             const uint16_t* ahead, float* acc) {
  __m256 sum[kRows][kVectors];
#pragma GCC unroll 8
  for (uint32_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (uint32_t i = 0; i < kVectors; ++i) {
      sum[r][i] = _mm256_load_ps(acc + (size_t)r * head_dim + 8 * i);
    }
  }
  for (uint32_t t = begin; t < end; ++t) {
    if (sizeof(Value) == 2 && t % 2 == 0) prefetch(ahead + t * kKvBlockTokens);
    __m256 v_t[kVectors];
#pragma GCC unroll 4
    for (uint32_t i = 0; i < kVectors; ++i) v_t[i] = load8(v + t * head_dim + 8 * i);
#pragma GCC unroll 8
    for (uint32_t r = 0; r < kRows; ++r) {
      const __m256 weight = _mm256_broadcast_ss(p + r * kStepTokens + t);
#pragma GCC unroll 4
      for (uint32_t i = 0; i < kVectors; ++i) {
        sum[r][i] = _mm256_fmadd_ps(weight, v_t[i], sum[r][i]);
      }
    }
  }
#pragma GCC unroll 8
  for (uint32_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (uint32_t i = 0; i < kVectors; ++i) {
      _mm256_store_ps(acc + (size_t)r * head_dim + 8 * i, sum[r][i]);
    }
  }
}

template <uint32_t kRows, class Value>
static void value_rows(const float* p, uint32_t begin, uint32_t end, const Value* v,
                       uint32_t head_dim, const uint16_t* ahead, float* acc) {
  uint32_t d = 0;
  if (kRows <= 3) {  // more chains of multiply-adds where registers allow
    for (; d + 32 <= head_dim; d += 32) {
      add_values<kRows, 4>(p, begin, end, v + d, head_dim, ahead + d * kKvBlockTokens, acc + d);
    }
  }
  for (; d + 16 <= head_dim; d += 16) {
    add_values<kRows, 2>(p, begin, end, v + d, head_dim, ahead + d * kKvBlockTokens, acc + d);
  }
  if (d < head_dim) {
    add_values<kRows, 1>(p, begin, end, v + d, head_dim, ahead + d * kKvBlockTokens, acc + d);
  }
}

// Two blocks at a time for up to 3 rows: with one, 6 chains of multiply-adds are too few to hide
// their latency.
template <class Value>
static void score_some_rows(uint32_t rows, uint32_t blocks, const float* q, uint32_t head_dim,
                            const Value* const* k, const uint16_t* const* ahead, float* scores) {
  const bool two = blocks == 2;
  switch (rows) {
    case 1:
      return two ? score_rows<1, 2>(q, head_dim, k, ahead, scores)
                 : score_rows<1, 1>(q, head_dim, k, ahead, scores);
    case 2:
      return two ? score_rows<2, 2>(q, head_dim, k, ahead, scores)
                 : score_rows<2, 1>(q, head_dim, k, ahead, scores);
    case 3:
      return two ? score_rows<3, 2>(q, head_dim, k, ahead, scores)
                 : score_rows<3, 1>(q, head_dim, k, ahead, scores);
    case 4:
      return score_rows<4, 1>(q, head_dim, k, ahead, scores);
    case 5:
      return score_rows<5, 1>(q, head_dim, k, ahead, scores);
    default:
      return score_rows<6, 1>(q, head_dim, k, ahead, scores);
  }
}

template <class Value>
static void value_some_rows(uint32_t rows, const float* p, uint32_t begin, uint32_t end,
                            const Value* v, uint32_t head_dim, const uint16_t* ahead, float* acc) {
  switch (rows) {
    case 1:
      return value_rows<1>(p, begin, end, v, head_dim, ahead, acc);
    case 2:
      return value_rows<2>(p, begin, end, v, head_dim, ahead, acc);
    case 3:
      return value_rows<3>(p, begin, end, v, head_dim, ahead, acc);
    case 4:
      return value_rows<4>(p, begin, end, v, head_dim, ahead, acc);
    case 5:
      return value_rows<5>(p, begin, end, v, head_dim, ahead, acc);
    default:
      return value_rows<6>(p, begin, end, v, head_dim, ahead, acc);
  }
}

}  // namespace pacer::kernels::avx2
