// out[m][n] = dot(x row m, weight row n) for the quantised formats and int8 activations: the body
// of both AVX-512 gemms. Contract: scalar/gemm_q8.h.
//
// A tile is up to 16 activation rows x 16 weight rows; a lane is a weight row. A block of 32
// columns is widened to bytes once for all rows of the tile. Integer sums of a block are exact,
// whatever the order; then every (m, n) goes through the same f32 instructions in the same order of
// blocks whatever the tile, so results do not depend on how many rows a call has. Tiles come in a
// few sizes and are padded with rows of zeros, whose results are dropped.
//
//   1 row    streams the weights once, prefetching ahead
//   2-16     the same stream, with the rows in a panel
//   more     tiles over a stretch of weights that stays in L2
//
// `Dot` is the product of bytes, and all that the two differ in: VNNI (kernels/avx512vnni) or
// multiply-adds of 16 bits (gemm_quantised.cpp here). It has
//
//   kSignedBias   what widen adds to signed codes
//   dot<Format, kRows>(w, x, integer)   integer[r * halves + h] += sums of w * x of row r (half h)
//
// In an unnamed namespace, as the header is compiled for two instruction sets.
#pragma once

#include <immintrin.h>

#include "kernels/avx512/formats.h"
#include "kernels/avx512/panel.h"

namespace pacer::kernels::avx512 {

namespace {

constexpr uint32_t kPrefetchBytes = 3840;    // ahead of the reads
constexpr uint32_t kChunkRows = 4;           // rows whose integer sums are computed side by side
constexpr size_t kStretchBytes = 256 << 10;  // weights that all tiles go through before the next

// Four consecutive activations in every lane.
PACER_INLINE __m512i broadcast_4(const int8_t* at) {
  int32_t four;
  __builtin_memcpy(&four, at, 4);
  return _mm512_set1_epi32(four);
}

// The stretch of a group that one panel covers, and where its results go.
struct GroupTask {
  const uint8_t* weights;
  uint32_t spans;
  Panel x;
  float* out;
  size_t out_stride;
  uint32_t rows;   // activation rows that exist; the tile may be padded
  uint32_t lanes;  // weight rows that exist, 1..16
  bool first;      // start from zero; else go on from what is in out
};

template <class Dot, class Format>
constexpr uint32_t bias_of() {
  return Format::Codes::kSigned ? (uint32_t)Dot::kSignedBias : (uint32_t)Format::kBias;
}

// total += what one row's integer sums of a block are worth.
template <class Format>
PACER_INLINE __m512 add_scaled(const __m512i* integer, const Scales& w, const float* x_scale,
                               const float* x_sums, __m512 total) {
  if (Format::kHalves == 1) {
    const __m512 scale = _mm512_mul_ps(w.scale[0], _mm512_set1_ps(*x_scale));
    total = _mm512_fmadd_ps(_mm512_cvtepi32_ps(integer[0]), scale, total);
  } else {
    __m512 both = _mm512_mul_ps(_mm512_cvtepi32_ps(integer[1]), w.scale[1]);
    both = _mm512_fmadd_ps(_mm512_cvtepi32_ps(integer[0]), w.scale[0], both);
    total = _mm512_fmadd_ps(both, _mm512_set1_ps(*x_scale), total);
  }
#pragma GCC unroll 2
  for (uint32_t h = 0; Format::kHasMinimum && h < Format::kHalves; ++h) {
    total = _mm512_fmadd_ps(w.offset[h], _mm512_set1_ps(x_sums[h]), total);
  }
  return total;
}

// total[0 .. kRows) += one block; x points at the block of the first of these rows.
template <class Dot, class Format, uint32_t kRows>
PACER_INLINE void add_rows(const __m512i* w, const Scales& scales, const Panel& x, __m512* total) {
  constexpr uint32_t kHalves = Format::kHalves;
  __m512i integer[kRows * kHalves];
#pragma GCC unroll 8
  for (uint32_t i = 0; i < kRows * kHalves; ++i) {
    integer[i] =
        bias_of<Dot, Format>() == 0 ? _mm512_setzero_si512() : _mm512_set1_epi32(x.starts[i]);
  }
  Dot::template dot<Format, kRows>(w, x.values, integer);
#pragma GCC unroll 8
  for (uint32_t r = 0; r < kRows; ++r) {
    total[r] = add_scaled<Format>(integer + r * kHalves, scales, x.scales + r, x.sums + r * kHalves,
                                  total[r]);
  }
}

// The panel from `rows` rows further on.
template <class Format>
PACER_INLINE Panel skip_rows(const Panel& x, uint32_t rows) {
  return Panel{x.values + rows * kQuantBlock, x.scales + rows, x.sums + rows * Format::kHalves,
               x.starts + rows * Format::kHalves};
}

template <class Dot, class Format, uint32_t kRows>
PACER_INLINE void add_block(const uint8_t* block, const Header& header, const Panel& x,
                            __m512* total) {
#pragma GCC unroll 10
  for (uint32_t i = 0; i < Format::kBlockBytes; i += packed::kLineBytes) {
    _mm_prefetch((const char*)block + kPrefetchBytes + i, _MM_HINT_T0);
  }
  __m512i w[kVectors];
  Format::Codes::template widen<Dot>(block, w);
  Scales scales;
  Format::Scale::load(header, block + Format::Codes::kBytes, &scales);

  constexpr uint32_t kChunk = kChunkRows / Format::kHalves;
  constexpr uint32_t kWhole = kRows / kChunk * kChunk;
#pragma GCC unroll 8
  for (uint32_t r = 0; r < kWhole; r += kChunk) {
    add_rows<Dot, Format, kChunk>(w, scales, skip_rows<Format>(x, r), total + r);
  }
  if constexpr (kRows > kWhole) {
    add_rows<Dot, Format, kRows - kWhole>(w, scales, skip_rows<Format>(x, kWhole), total + kWhole);
  }
}

template <class Dot, class Format, uint32_t kRows>
void multiply_group(const GroupTask& task) {
  const __mmask16 lanes = first_lanes(task.lanes);
  __m512 total[kRows];
#pragma GCC unroll 16
  for (uint32_t r = 0; r < kRows; ++r) {
    total[r] = _mm512_setzero_ps();
    if (!task.first && r < task.rows) {
      total[r] = _mm512_maskz_loadu_ps(lanes, task.out + r * task.out_stride);
    }
  }

  const uint8_t* at = task.weights;
  Panel x = task.x;
  for (uint32_t span = 0; span < task.spans; ++span) {
    const Header header = Format::header(at);
    at += Format::kHeaderBytes;
    for (uint32_t b = 0; b < Format::kBlocks; ++b) {
      add_block<Dot, Format, kRows>(at, header, x, total);
      at += Format::kBlockBytes;
      x = skip_rows<Format>(x, kRows);
    }
  }

#pragma GCC unroll 16
  for (uint32_t r = 0; r < kRows; ++r) {
    if (r < task.rows) _mm512_mask_storeu_ps(task.out + r * task.out_stride, lanes, total[r]);
  }
}

template <class Dot, class Format>
void multiply_group_rows(uint32_t tile_rows, const GroupTask& task) {
  switch (tile_rows) {
    case 1:
      return multiply_group<Dot, Format, 1>(task);
    case 2:
      return multiply_group<Dot, Format, 2>(task);
    case 4:
      return multiply_group<Dot, Format, 4>(task);
    case 6:
      return multiply_group<Dot, Format, 6>(task);
    case 8:
      return multiply_group<Dot, Format, 8>(task);
    case 12:
      return multiply_group<Dot, Format, 12>(task);
    default:
      return multiply_group<Dot, Format, 16>(task);
  }
}

// What one panel covers: activation rows [m, m + rows), blocks [first_block, first_block + blocks).
struct PanelTask {
  uint32_t m;
  uint32_t rows;
  uint32_t tile_rows;
  uint32_t first_block;
  uint32_t blocks;
};

// The panel times weight rows [begin, end).
template <class Dot, class Format>
void multiply_panel(const GemmArgs& args, const PanelTask& part, const Panel& x, uint32_t begin,
                    uint32_t end) {
  const uint32_t first_span = part.first_block / Format::kBlocks;
  for (uint32_t n = begin; n < end; n += kRowGroup) {
    const uint8_t* group = packed::group_at(args.format, args.packed, args.x.columns, n);
    GroupTask task;
    task.weights = group + (size_t)first_span * Format::kSpanBytes;
    task.spans = part.blocks / Format::kBlocks;
    task.x = x;
    task.out = args.out + part.m * args.out_stride + n;
    task.out_stride = args.out_stride;
    task.rows = part.rows;
    task.lanes = end - n < kRowGroup ? end - n : (uint32_t)kRowGroup;
    task.first = part.first_block == 0 && !args.accumulate;
    multiply_group_rows<Dot, Format>(part.tile_rows, task);
  }
}

template <class Dot, class Format>
void multiply_stretch(const GemmArgs& args, uint32_t begin, uint32_t end) {
  const PanelShape shape = {Format::kHalves, Format::kHasMinimum != 0,
                            (int32_t)bias_of<Dot, Format>()};
  const uint32_t blocks = args.x.columns / kQuantBlock;
  const uint32_t tiles = (args.x.rows + kTileRowsMax - 1) / kTileRowsMax;
  PanelBuffer buffer;
  uint32_t m = 0;
  for (uint32_t tile = 0; tile < tiles; ++tile) {
    PanelTask part;
    part.m = m;
    part.rows = (args.x.rows - m + tiles - tile - 1) / (tiles - tile);  // even tiles
    part.tile_rows = padded_rows(part.rows);
    const uint32_t step = panel_blocks(part.tile_rows);
    for (uint32_t b = 0; b < blocks; b += step) {
      part.first_block = b;
      part.blocks = blocks - b < step ? blocks - b : step;
      const Panel x = args.x.rows == 1 ? row_panel(&buffer, shape, args.x, b, part.blocks)
                                       : fill_panel(&buffer, shape, args.x, m, part.rows,
                                                    part.tile_rows, b, part.blocks);
      multiply_panel<Dot, Format>(args, part, x, begin, end);
    }
    m += part.rows;
  }
}

template <class Dot, class Format>
void multiply(const GemmArgs& args) {
  const size_t groups = kStretchBytes / packed::group_bytes(args.format, args.x.columns);
  // One tile reads the weights once: no stretch to keep.
  const bool one_tile = args.x.rows <= kTileRowsMax;
  const uint32_t step =
      one_tile ? args.row_end - args.row_begin : kRowGroup * (groups == 0 ? 1 : (uint32_t)groups);
  for (uint32_t n = args.row_begin; n < args.row_end; n += step) {
    multiply_stretch<Dot, Format>(args, n, args.row_end - n < step ? args.row_end : n + step);
  }
}

template <class Dot>
void multiply_quantised(const GemmArgs& args) {
  switch (args.format) {
    case WeightFormat::kQ4_0:
      return multiply<Dot, Q4_0>(args);
    case WeightFormat::kQ4_1:
      return multiply<Dot, Q4_1>(args);
    case WeightFormat::kQ5_0:
      return multiply<Dot, Q5_0>(args);
    case WeightFormat::kQ5_1:
      return multiply<Dot, Q5_1>(args);
    case WeightFormat::kQ8_0:
      return multiply<Dot, Q8_0>(args);
    case WeightFormat::kQ2K:
      return multiply<Dot, Q2K>(args);
    case WeightFormat::kQ3K:
      return multiply<Dot, Q3K>(args);
    case WeightFormat::kQ4K:
      return multiply<Dot, Q4K>(args);
    case WeightFormat::kQ5K:
      return multiply<Dot, Q5K>(args);
    case WeightFormat::kQ6K:
      return multiply<Dot, Q6K>(args);
    case WeightFormat::kIQ4NL:
      return multiply<Dot, IQ4NL>(args);
    case WeightFormat::kIQ4XS:
      return multiply<Dot, IQ4XS>(args);
    default:
      __builtin_trap();  // gemm() sends the other formats elsewhere
  }
}

}  // namespace

}  // namespace pacer::kernels::avx512
