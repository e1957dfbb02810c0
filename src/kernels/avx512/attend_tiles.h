// The inner loops of attention: up to 6 query rows against up to four KV blocks, all sums in
// registers.
//
// Written for both forms of a block: f16 as stored (Value = uint16_t), f32 as widened. Only the f16
// form prefetches: the widened one is in L1, and its source was read a moment ago.
#pragma once

#include <immintrin.h>

#include "kernels/avx512/simd.h"

namespace pacer::kernels::avx512 {

enum : uint32_t {
  kStepBlocks = 4,  // KV blocks between two updates of the softmax
  kStepTokens = kStepBlocks * kKvBlockTokens,
  kRegisterRows = 6,  // query rows whose sums stay in registers
};

PACER_INLINE void prefetch(const void* at) {
  _mm_prefetch((const char*)at, _MM_HINT_T0);
}

// Sixteen values of a block, f16 as stored or f32 as widened, or eight and zeros: head_dim is a
// multiple of 8 only, and nothing beyond a block may be read.
PACER_INLINE __m512 load_values(const uint16_t* at, bool eight) {
  if (!eight) return load_f16(at);
  return _mm512_cvtph_ps(_mm256_zextsi128_si256(_mm_loadu_si128((const __m128i*)at)));
}
PACER_INLINE __m512 load_values(const float* at, bool eight) {
  return eight ? _mm512_maskz_loadu_ps(0xff, at) : _mm512_loadu_ps(at);
}

// count: a multiple of 16, as a block's K and V have 16 tokens.
PACER_INLINE void widen(const uint16_t* from, uint32_t count, float* to) {
  for (uint32_t i = 0; i < count; i += 16) _mm512_storeu_ps(to + i, load_f16(from + i));
}

// scores[r][0 .. 16 * kBlocks) = q[r] . K for kRows rows and kBlocks blocks at a time: a vector
// holds the 16 tokens of a block. Of what `ahead` points to, 32 bytes are prefetched for every
// dimension and block.
template <uint32_t kRows, uint32_t kBlocks, class Value>
static void score_rows(const float* q, uint32_t head_dim, const Value* const* k,
                       const uint16_t* const* ahead, float* scores) {
  __m512 sum[kRows][kBlocks];
#pragma GCC unroll 8
  for (uint32_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (uint32_t b = 0; b < kBlocks; ++b) sum[r][b] = _mm512_setzero_ps();
  }
  for (uint32_t d = 0; d < head_dim; ++d) {
    __m512 k_d[kBlocks];
#pragma GCC unroll 4
    for (uint32_t b = 0; b < kBlocks; ++b) {
      if (sizeof(Value) == 2 && d % 2 == 0) prefetch(ahead[b] + d * kKvBlockTokens);
      k_d[b] = load_values(k[b] + d * kKvBlockTokens, false);
    }
#pragma GCC unroll 8
    for (uint32_t r = 0; r < kRows; ++r) {
      const __m512 q_d = _mm512_set1_ps(q[(size_t)r * head_dim + d]);
#pragma GCC unroll 4
      for (uint32_t b = 0; b < kBlocks; ++b) sum[r][b] = _mm512_fmadd_ps(q_d, k_d[b], sum[r][b]);
    }
  }
#pragma GCC unroll 8
  for (uint32_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (uint32_t b = 0; b < kBlocks; ++b) {
      _mm512_storeu_ps(scores + r * kStepTokens + b * kKvBlockTokens, sum[r][b]);
    }
  }
}

// acc[r][0 .. 16 * kVectors) += sum of p[r][t] * V[t][..] over tokens [begin, end), in order. With
// kEight the only vector has eight values.
template <uint32_t kRows, uint32_t kVectors, bool kEight, class Value>
PACER_INLINE void add_values(const float* p, uint32_t begin, uint32_t end, const Value* v,
                             uint32_t head_dim, const uint16_t* ahead, float* acc) {
  const __mmask16 lanes = kEight ? 0xff : 0xffff;
  __m512 sum[kRows][kVectors];
#pragma GCC unroll 8
  for (uint32_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (uint32_t i = 0; i < kVectors; ++i) {
      sum[r][i] = _mm512_maskz_loadu_ps(lanes, acc + (size_t)r * head_dim + 16 * i);
    }
  }
  for (uint32_t t = begin; t < end; ++t) {
    __m512 v_t[kVectors];
#pragma GCC unroll 4
    for (uint32_t i = 0; i < kVectors; ++i) {
      // Every second token, as many lines as two tokens' vectors fill.
      if (sizeof(Value) == 2 && t % 2 == 0) prefetch(ahead + t * 16 * kVectors + 32 * i);
      v_t[i] = load_values(v + t * head_dim + 16 * i, kEight);
    }
#pragma GCC unroll 8
    for (uint32_t r = 0; r < kRows; ++r) {
      const __m512 weight = _mm512_set1_ps(p[r * kStepTokens + t]);
#pragma GCC unroll 4
      for (uint32_t i = 0; i < kVectors; ++i) {
        sum[r][i] = _mm512_fmadd_ps(weight, v_t[i], sum[r][i]);
      }
    }
  }
#pragma GCC unroll 8
  for (uint32_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (uint32_t i = 0; i < kVectors; ++i) {
      _mm512_mask_storeu_ps(acc + (size_t)r * head_dim + 16 * i, lanes, sum[r][i]);
    }
  }
}

template <uint32_t kRows, class Value>
static void value_rows(const float* p, uint32_t begin, uint32_t end, const Value* v,
                       uint32_t head_dim, const uint16_t* ahead, float* acc) {
  uint32_t d = 0;
  for (; d + 64 <= head_dim; d += 64) {
    add_values<kRows, 4, false>(p, begin, end, v + d, head_dim, ahead + d * kKvBlockTokens,
                                acc + d);
  }
  if (d + 32 <= head_dim) {
    add_values<kRows, 2, false>(p, begin, end, v + d, head_dim, ahead + d * kKvBlockTokens,
                                acc + d);
    d += 32;
  }
  if (d + 16 <= head_dim) {
    add_values<kRows, 1, false>(p, begin, end, v + d, head_dim, ahead + d * kKvBlockTokens,
                                acc + d);
    d += 16;
  }
  if (d < head_dim) {
    add_values<kRows, 1, true>(p, begin, end, v + d, head_dim, ahead + d * kKvBlockTokens, acc + d);
  }
}

// More blocks at a time for few rows: 6 chains of multiply-adds are too few to hide their latency.
PACER_INLINE uint32_t score_blocks_at_a_time(uint32_t rows, uint32_t left) {
  const uint32_t most = rows <= 3 ? 4 : 2;
  return left >= most ? most : left >= 2 ? 2 : 1;
}

template <uint32_t kRows, class Value>
static void score_some_blocks(uint32_t blocks, const float* q, uint32_t head_dim,
                              const Value* const* k, const uint16_t* const* ahead, float* scores) {
  if constexpr (kRows <= 3) {
    if (blocks == 4) return score_rows<kRows, 4>(q, head_dim, k, ahead, scores);
  }
  if (blocks == 2) return score_rows<kRows, 2>(q, head_dim, k, ahead, scores);
  return score_rows<kRows, 1>(q, head_dim, k, ahead, scores);
}

template <class Value>
static void score_some_rows(uint32_t rows, uint32_t blocks, const float* q, uint32_t head_dim,
                            const Value* const* k, const uint16_t* const* ahead, float* scores) {
  switch (rows) {
    case 1:
      return score_some_blocks<1>(blocks, q, head_dim, k, ahead, scores);
    case 2:
      return score_some_blocks<2>(blocks, q, head_dim, k, ahead, scores);
    case 3:
      return score_some_blocks<3>(blocks, q, head_dim, k, ahead, scores);
    case 4:
      return score_some_blocks<4>(blocks, q, head_dim, k, ahead, scores);
    case 5:
      return score_some_blocks<5>(blocks, q, head_dim, k, ahead, scores);
    default:
      return score_some_blocks<6>(blocks, q, head_dim, k, ahead, scores);
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

}  // namespace pacer::kernels::avx512
