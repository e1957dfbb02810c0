// The same as block_dot.h for formats with super-blocks of 256 columns: integer scales are part of
// the block's integer, so that only d of the super-block (and what its minima count in) stays in
// f32, loaded once for 8 blocks.
//
// The integer scale goes into madd, which adds the 16-bit pairs anyway. Largest sums of a block:
//
//   Q4_K   63 * 32 * 15 * 127         3.9 million      Q6_K     128 * 32 * 63 * 127    32.8 million
//   Q5_K   63 * 32 * 31 * 127         8.0 million      IQ4_XS    32 * 32 * 127 * 127   16.6 million
//   Q2_K   15 * 32 * 3 * 127, Q3_K 32 * 32 * 7 * 127    below a million
#pragma once

#include <immintrin.h>

#include "kernels/avx2/block_dot.h"

namespace pacer::kernels::avx2 {

struct SuperHeader {
  __m256 d;
  __m256 offset_unit;  // what the integers of offset() count in
};

// Eight bytes, one of each row.
PACER_INLINE __m256i broadcast_rows(const uint8_t* at) {
  return _mm256_broadcastq_epi64(_mm_loadl_epi64((const __m128i*)at));
}

// Unsigned bytes of 8 rows, as 16 bits twice in each lane.
PACER_INLINE __m256i multiplier_u8(const uint8_t* at) {
  const __m256i to_low_bytes =
      _mm256_setr_epi8(0, -1, 0, -1, 1, -1, 1, -1, 2, -1, 2, -1, 3, -1, 3, -1,  //
                       4, -1, 4, -1, 5, -1, 5, -1, 6, -1, 6, -1, 7, -1, 7, -1);
  return _mm256_shuffle_epi8(broadcast_rows(at), to_low_bytes);
}

// Signed ones: into the upper bytes, then down with their sign.
PACER_INLINE __m256i multiplier_i8(const uint8_t* at) {
  const __m256i to_high_bytes =
      _mm256_setr_epi8(-1, 0, -1, 0, -1, 1, -1, 1, -1, 2, -1, 2, -1, 3, -1, 3,  //
                       -1, 4, -1, 4, -1, 5, -1, 5, -1, 6, -1, 6, -1, 7, -1, 7);
  return _mm256_srai_epi16(_mm256_shuffle_epi8(broadcast_rows(at), to_high_bytes), 8);
}

PACER_INLINE __m256i widen_u8(const uint8_t* at) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)at));
}
PACER_INLINE __m256i widen_i8(const uint8_t* at) {
  return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)at));
}

template <WeightFormat kFormat>
struct SuperBlock {
  enum : uint32_t {
    kSpanBlocks = kSuperBlock / kQuantBlock,
    kHeaderBytes = packed::span_shape(kFormat).header_bytes,
    kBlockBytes = packed::span_shape(kFormat).block_bytes(),
    kSpanBytes = packed::span_shape(kFormat).bytes(),
    kTailOffset = packed::span_shape(kFormat).codes_bytes,
  };
  using Header = SuperHeader;
  PACER_INLINE __m256 scale(const Header& header, const uint8_t*, uint32_t) { return header.d; }

  // 8 bytes of the first or second vector behind the codes.
  PACER_INLINE const uint8_t* tail(const uint8_t* block, uint32_t vector, uint32_t half) {
    return block + kTailOffset + vector * packed::kVectorI8Bytes + 8 * half;
  }
  // The two headers: d and dmin; or d alone, with a centre that is taken off the codes.
  PACER_INLINE Header header_with_dmin(const uint8_t* span, uint32_t half) {
    const __m256 dmin = half_of_scales(span, packed::kVectorF16Bytes, half);
    return {half_of_scales(span, 0, half), _mm256_sub_ps(_mm256_setzero_ps(), dmin)};
  }
  PACER_INLINE Header header_with_centre(const uint8_t* span, uint32_t half, float centre) {
    const __m256 d = half_of_scales(span, 0, half);
    return {d, _mm256_mul_ps(d, _mm256_set1_ps(-centre))};
  }
  PACER_INLINE __m256 offset_from(const Header& header, __m256i integers) {
    return _mm256_mul_ps(_mm256_cvtepi32_ps(integers), header.offset_unit);
  }
};

// Weight = d s * nibble - dmin m.
struct Q4_K : SuperBlock<WeightFormat::kQ4K> {
  enum : uint32_t { kOffsets = 1 };
  PACER_INLINE Header header(const uint8_t* span, uint32_t half) {
    return header_with_dmin(span, half);
  }
  template <uint32_t kRows>
  PACER_INLINE void dot(const uint8_t* block, uint32_t half, const int8_t* x, __m256i* integer) {
    dot_nibbles<kRows>(block, half, x, multiplier_u8(tail(block, 0, half)), integer);
  }
  PACER_INLINE __m256 offset(const Header& header, const uint8_t* block, uint32_t half, uint32_t) {
    return offset_from(header, widen_u8(tail(block, 1, half)));
  }
};

// Weight = d s * code - dmin m.
struct Q5_K : SuperBlock<WeightFormat::kQ5K> {
  enum : uint32_t { kOffsets = 1 };
  PACER_INLINE Header header(const uint8_t* span, uint32_t half) {
    return header_with_dmin(span, half);
  }
  template <uint32_t kRows>
  PACER_INLINE void dot(const uint8_t* block, uint32_t half, const int8_t* x, __m256i* integer) {
    dot_5_bits<kRows>(block, half, x, multiplier_u8(tail(block, 0, half)), integer);
  }
  PACER_INLINE __m256 offset(const Header& header, const uint8_t* block, uint32_t half, uint32_t) {
    return offset_from(header, widen_u8(tail(block, 1, half)));
  }
};

// Weight = d s_h * (code - 32). A 16-bit lane takes the 4 products of 2 words, at most 63 * 127
// each: 32004.
struct Q6_K : SuperBlock<WeightFormat::kQ6K> {
  enum : uint32_t { kOffsets = 2 };
  PACER_INLINE Header header(const uint8_t* span, uint32_t half) {
    return header_with_centre(span, half, 32.0f);
  }
  template <uint32_t kRows>
  PACER_INLINE void dot(const uint8_t* block, uint32_t half, const int8_t* x, __m256i* integer) {
    const __m256i low_nibble = _mm256_set1_epi8(15);
    const __m256i upper_bits = _mm256_set1_epi8(0x30);
#pragma GCC unroll 4
    for (uint32_t line = 0; line < 4; ++line) {
      const uint32_t h = line / 2;
      const uint32_t field = line % 2 * 2;  // of the first of the two words
      const __m256i packed = load_line(block, line, half);
      const __m256i uppers = load_line(block, 4 + h, half);
      const __m256i low = _mm256_and_si256(packed, low_nibble);
      const __m256i high = _mm256_and_si256(_mm256_srli_epi16(packed, 4), low_nibble);
      const __m256i low_upper = _mm256_and_si256(shift_bits(uppers, 2 * field, 4), upper_bits);
      const __m256i high_upper = _mm256_and_si256(shift_bits(uppers, 2 * field + 2, 4), upper_bits);
      const __m256i words[2] = {_mm256_or_si256(low, low_upper), _mm256_or_si256(high, high_upper)};
      add_words<kRows, 2>(words, 2 * line, x, multiplier_i8(tail(block, h, half)), integer);
    }
  }
  PACER_INLINE __m256 offset(const Header& header, const uint8_t* block, uint32_t half,
                             uint32_t h) {
    return offset_from(header, widen_i8(tail(block, h, half)));
  }
};

// Weight = d s_h * (code - 4). 8 products of at most 7 * 127 in a 16-bit lane.
struct Q3_K : SuperBlock<WeightFormat::kQ3K> {
  enum : uint32_t { kOffsets = 2 };
  PACER_INLINE Header header(const uint8_t* span, uint32_t half) {
    return header_with_centre(span, half, 4.0f);
  }
  template <uint32_t kRows>
  PACER_INLINE void dot(const uint8_t* block, uint32_t half, const int8_t* x, __m256i* integer) {
    const __m256i two_bits = _mm256_set1_epi8(3);
    const __m256i third_bit = _mm256_set1_epi8(4);
    const __m256i thirds = load_line(block, 2, half);  // bit k: word k
#pragma GCC unroll 2
    for (uint32_t h = 0; h < 2; ++h) {
      const __m256i packed = load_line(block, h, half);
      __m256i words[4];
#pragma GCC unroll 4
      for (uint32_t f = 0; f < 4; ++f) {
        const __m256i low = _mm256_and_si256(shift_bits(packed, 2 * f, 0), two_bits);
        const __m256i third = _mm256_and_si256(shift_bits(thirds, 4 * h + f, 2), third_bit);
        words[f] = _mm256_or_si256(low, third);
      }
      add_words<kRows, 4>(words, 4 * h, x, multiplier_i8(tail(block, h, half)), integer);
    }
  }
  PACER_INLINE __m256 offset(const Header& header, const uint8_t* block, uint32_t half,
                             uint32_t h) {
    return offset_from(header, widen_i8(tail(block, h, half)));
  }
};

// Weight = d (t_h & 15) * code - dmin (t_h >> 4). 8 products of at most 3 * 127 in a 16-bit lane.
struct Q2_K : SuperBlock<WeightFormat::kQ2K> {
  enum : uint32_t { kOffsets = 2 };
  PACER_INLINE Header header(const uint8_t* span, uint32_t half) {
    return header_with_dmin(span, half);
  }
  template <uint32_t kRows>
  PACER_INLINE void dot(const uint8_t* block, uint32_t half, const int8_t* x, __m256i* integer) {
    const __m256i two_bits = _mm256_set1_epi8(3);
#pragma GCC unroll 2
    for (uint32_t h = 0; h < 2; ++h) {
      const __m256i packed = load_line(block, h, half);
      const __m256i s_and_m = multiplier_u8(tail(block, h, half));
      __m256i words[4];
#pragma GCC unroll 4
      for (uint32_t f = 0; f < 4; ++f) {
        words[f] = _mm256_and_si256(shift_bits(packed, 2 * f, 0), two_bits);
      }
      add_words<kRows, 4>(words, 4 * h, x, _mm256_and_si256(s_and_m, _mm256_set1_epi8(15)),
                          integer);
    }
  }
  PACER_INLINE __m256 offset(const Header& header, const uint8_t* block, uint32_t half,
                             uint32_t h) {
    return offset_from(header, _mm256_srli_epi32(widen_u8(tail(block, h, half)), 4));
  }
};

// Weight = d s * value of the table.
struct IQ4_XS : SuperBlock<WeightFormat::kIQ4XS> {
  enum : uint32_t { kOffsets = 0 };
  PACER_INLINE Header header(const uint8_t* span, uint32_t half) {
    const __m256 d = half_of_scales(span, 0, half);
    return {d, d};
  }
  template <uint32_t kRows>
  PACER_INLINE void dot(const uint8_t* block, uint32_t half, const int8_t* x, __m256i* integer) {
    dot_iq4<kRows>(block, half, x, multiplier_i8(tail(block, 0, half)), integer);
  }
  PACER_INLINE __m256 offset(const Header&, const uint8_t*, uint32_t, uint32_t) {
    return _mm256_setzero_ps();
  }
};

}  // namespace pacer::kernels::avx2
