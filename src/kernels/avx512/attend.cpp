// Causal attention over the paged KV cache, many query rows at a time: avx2/attend.cpp in 512 bits.
//
// A query row is a (query token, head of the group). Rows go in tiles of about 48; for each tile
// the KV is walked in steps of 64 positions (4 blocks):
//
//   scores   s[row][64] = q[row] . K: a vector holds the 16 tokens of a block (K is stored
//            transposed), so nothing is summed horizontally
//   softmax  per row: the new maximum, p = 2^(s - max), the factor by which earlier sums shrink
//   values   acc[row] += p . V: a vector holds 16 dimensions
//
// q is multiplied by scale * log2(e) first, so exponentials are powers of two; with a soft cap by
// scale / cap, and tanh then gives scores that are multiplied by cap * log2(e). With more than 6
// rows two blocks of K, or one of V, are widened from f16 once into a buffer (L1) for all of them;
// with fewer, straight into registers.
//
// A row's result is the same in any call: its steps start at fixed positions, each score is one
// chain over the dimensions, each output one chain over the positions it may see. Slots beyond a
// row's own position, or before its window, are never used: a mask makes their scores -infinity,
// and the value loop passes them by, so they may hold anything, NaN included. A tile starts at the
// first block that its first row sees. Nothing is added up in another order than in AVX2, so both
// tiers give the same bits: a change of rounding here would move answers as int8 activations do.
//
// Bound, one query token: memory. While the 4 blocks of a step are read, first K then V, the next 4
// are prefetched line by line in the order of their addresses. From L2, widening f16 (two of the
// instructions for 16 values, beside one for each row) binds. Bound, many tokens: multiply-adds.
//
// Measured on one core of a Sapphire Rapids guest, against AVX2 in the same run, one token at
// position 1023: 3 heads of 64 dimensions 27 GB/s from L2, 1.24 x; 4 heads of 128 1.4 x; 1 head 1.0
// x. 64 tokens of 3 heads 107 GFLOP/s, 1.47 x.

#include <immintrin.h>

#include "kernels/avx512/attend_tiles.h"
#include "kernels/avx512/kernels.h"
#include "kernels/avx512/simd.h"

namespace pacer::kernels::avx512 {

namespace {

// Query rows that share a widened block; their state (about 24 KB) fits L1 beside it.
constexpr uint32_t kTileRowsTarget = 48;
constexpr uint32_t kWideBlocks = 2;  // K blocks widened together

constexpr float kLog2E = 1.44269504f;

struct Scratch {
  float* q;           // [rows][head_dim], scaled
  float* acc;         // [rows][head_dim]
  float* scores;      // [rows][64], then the weights p
  float* wide;        // [2][16 * head_dim]: widened K or V blocks
  float* max;         // [rows]
  float* weight_sum;  // [rows]
};

// What the helpers below share about one tile of query rows.
struct Tile {
  const AttendArgs* args;
  Scratch scratch;
  uint32_t first_token;  // of the call's query tokens
  uint32_t rows;         // query tokens of the tile * group
  uint32_t first_seen;   // the first position in a window of the tile
  uint32_t positions;    // seen by the tile's last token
};

// The blocks of one step, and of the sequence.
struct Step {
  uint32_t position;  // a multiple of 64
  uint32_t begin;     // block_table[begin .. end), from the first block that the tile sees
  uint32_t end;
  uint32_t blocks_all;
  bool whole;  // every row sees all 64 positions
};

// Tokens [begin, end) of a stretch of positions; none when begin >= end.
struct Seen {
  uint32_t begin;
  uint32_t end;
};

uint32_t tile_tokens(uint32_t tokens, uint32_t group) {
  const uint32_t fit = group >= kTileRowsTarget ? 1 : kTileRowsTarget / group;
  return tokens < fit ? tokens : fit;
}

uint32_t round_up_16(uint32_t n) {
  return (n + 15) / 16 * 16;
}

// The first position that the query token at `position` attends to.
uint32_t window_begin(const AttendArgs& args, uint32_t position) {
  return args.window == 0 || position < args.window ? 0 : position - args.window + 1;
}

// What the row sees of the `count` positions from `start` on, relative to `start`.
Seen seen_of(const Tile& tile, uint32_t row, uint32_t start, uint32_t count) {
  const AttendArgs& args = *tile.args;
  const uint32_t position = args.first_position + tile.first_token + row / args.group;
  const uint32_t first = window_begin(args, position);
  Seen seen = {0, 0};
  if (position >= start) seen.end = position - start < count ? position - start + 1 : count;
  if (first > start) seen.begin = first - start;
  return seen;
}

const uint16_t* kv_block(const AttendArgs& args, uint32_t block) {
  return args.kv + args.block_table[block] * args.block_stride;
}

void scale_row(const float* from, float factor, uint32_t n, float* to) {
  const __m512 f = _mm512_set1_ps(factor);
  uint32_t i = 0;
  for (; i + 16 <= n; i += 16) {
    _mm512_storeu_ps(to + i, _mm512_mul_ps(_mm512_loadu_ps(from + i), f));
  }
  if (i < n) {  // eight are left
    _mm512_mask_storeu_ps(to + i, 0xff, _mm512_mul_ps(_mm512_maskz_loadu_ps(0xff, from + i), f));
  }
}

// --- Scores ---

// What to prefetch while K (part = 0) or V (part = 1) of block `b` is read: the next step's blocks,
// half by half. The last block stands in for those that do not exist.
const uint16_t* next_half(const Tile& tile, const Step& step, uint32_t part, uint32_t b) {
  const uint32_t base = step.position / kKvBlockTokens;
  const uint32_t halves = part * kStepBlocks + (b - base);
  const uint32_t next = base + kStepBlocks + halves / 2;
  const uint32_t last = step.blocks_all - 1;
  const uint16_t* block = kv_block(*tile.args, next < last ? next : last);
  return block + halves % 2 * tile.args->head_dim * kKvBlockTokens;
}

// Few rows: up to four blocks at a time, straight from f16.
void score_stored(const Tile& tile, const Step& step) {
  for (uint32_t b = step.begin; b < step.end;) {
    const uint32_t blocks = score_blocks_at_a_time(tile.rows, step.end - b);
    const uint16_t* k[kStepBlocks];
    const uint16_t* ahead[kStepBlocks];
    for (uint32_t i = 0; i < blocks; ++i) {
      k[i] = kv_block(*tile.args, b + i);
      ahead[i] = next_half(tile, step, 0, b + i);
    }
    float* scores = tile.scratch.scores + b * kKvBlockTokens - step.position;
    score_some_rows(tile.rows, blocks, tile.scratch.q, tile.args->head_dim, k, ahead, scores);
    b += blocks;
  }
}

// Many rows: two blocks at a time, widened for all of them.
void score_widened(const Tile& tile, const Step& step) {
  const uint32_t head_dim = tile.args->head_dim;
  const uint32_t half = head_dim * kKvBlockTokens;
  for (uint32_t b = step.begin; b < step.end; b += kWideBlocks) {
    const uint32_t blocks = step.end - b < kWideBlocks ? step.end - b : kWideBlocks;
    const float* wide[kWideBlocks] = {tile.scratch.wide, tile.scratch.wide + half};
    for (uint32_t i = 0; i < blocks; ++i) {
      widen(kv_block(*tile.args, b + i), half, tile.scratch.wide + i * half);
    }
    float* scores = tile.scratch.scores + b * kKvBlockTokens - step.position;
    for (uint32_t r = 0; r < tile.rows; r += kRegisterRows) {
      score_some_rows(tile.rows - r, blocks, tile.scratch.q + (size_t)r * head_dim, head_dim, wide,
                      (const uint16_t* const*)0, scores + r * kStepTokens);
    }
  }
}

// --- Softmax ---

// Lanes of vector `i` of a step that are seen.
__mmask16 seen_lanes(Seen seen, uint32_t i) {
  const uint32_t start = 16 * i;
  const uint32_t begin = seen.begin > start ? seen.begin - start : 0;
  const uint32_t end = seen.end > start ? seen.end - start : 0;
  if (begin >= 16) return 0;
  return first_lanes(end < 16 ? end : 16) & (__mmask16)~first_lanes(begin);
}

// Scores, which are score / cap, become cap * tanh(score / cap), times log2(e).
void cap_scores(float* scores, Seen seen, float cap) {
  const __m512 scale = _mm512_set1_ps(cap * kLog2E);
  for (uint32_t i = seen.begin & ~15u; i < seen.end; i += 16) {
    const __m512 t = tanh_f32(_mm512_loadu_ps(scores + i));
    _mm512_storeu_ps(scores + i, _mm512_mul_ps(t, scale));
  }
}

// As AVX2 adds them up.
float sum_lanes(__m256 v) {
  __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  half = _mm_add_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}

// Turns the scores that a row sees into weights, and returns the factor by which the row's earlier
// sums shrink. Vectors of the step that it does not see count as -infinity, and so as nothing.
float softmax_step(float* scores, Seen seen, float* row_max, float* weight_sum) {
  const __m512 lowest = _mm512_set1_ps(-__builtin_inff());
  __m512 s[kStepBlocks];
  __m512 max = _mm512_set1_ps(*row_max);
#pragma GCC unroll 4
  for (uint32_t i = 0; i < kStepBlocks; ++i) {
    s[i] = _mm512_mask_loadu_ps(lowest, seen_lanes(seen, i), scores + 16 * i);
    max = _mm512_max_ps(max, s[i]);
  }
  const float new_max = _mm512_reduce_max_ps(max);

  const __m512 around = _mm512_set1_ps(new_max);
  __m256 sum = _mm256_setzero_ps();
#pragma GCC unroll 4
  for (uint32_t i = 0; i < kStepBlocks; ++i) {
    const __m512 p = exp2_f32(_mm512_sub_ps(s[i], around));
    _mm512_storeu_ps(scores + 16 * i, p);
    sum = _mm256_add_ps(sum, _mm512_castps512_ps256(p));
    sum = _mm256_add_ps(sum, _mm512_extractf32x8_ps(p, 1));
  }

  // exp2_f32(-infinity) is 0: nothing came before the first step.
  const float shrink = _mm512_cvtss_f32(exp2_f32(_mm512_set1_ps(*row_max - new_max)));
  *row_max = new_max;
  *weight_sum = *weight_sum * shrink + sum_lanes(sum);
  return shrink;
}

void softmax_rows(const Tile& tile, const Step& step) {
  const Scratch& s = tile.scratch;
  const uint32_t head_dim = tile.args->head_dim;
  for (uint32_t r = 0; r < tile.rows; ++r) {
    Seen seen = {0, kStepTokens};
    if (!step.whole) seen = seen_of(tile, r, step.position, kStepTokens);
    if (seen.begin >= seen.end) continue;
    float* scores = s.scores + r * kStepTokens;
    if (tile.args->soft_cap > 0) cap_scores(scores, seen, tile.args->soft_cap);
    const float shrink = softmax_step(scores, seen, s.max + r, s.weight_sum + r);
    float* acc = s.acc + (size_t)r * head_dim;
    if (shrink != 1.0f) scale_row(acc, shrink, head_dim, acc);
  }
}

// --- Values ---

// Values of a block, whose first position is `start`, into the rows [r, r + rows): tokens that all
// of them see together, and before and after them the ragged ends of window and causality row by
// row, so that a row adds its tokens in order. Rows are in order of position: the last one's window
// begins last, and the first one's tokens end first.
template <class Value>
void value_ragged(const Tile& tile, uint32_t r, uint32_t rows, const Value* v,
                  const uint16_t* ahead, uint32_t start, const float* p) {
  const uint32_t head_dim = tile.args->head_dim;
  float* acc = tile.scratch.acc + (size_t)r * head_dim;
  Seen common;
  common.end = seen_of(tile, r, start, kKvBlockTokens).end;
  common.begin = seen_of(tile, r + rows - 1, start, kKvBlockTokens).begin;
  if (common.begin >= common.end) common.begin = common.end = kKvBlockTokens;  // no such token
  for (uint32_t i = 0; common.begin > 0 && i < rows; ++i) {
    const Seen own = seen_of(tile, r + i, start, kKvBlockTokens);
    const uint32_t end = own.end < common.begin ? own.end : common.begin;
    if (own.begin >= end) continue;
    value_rows<1>(p + i * kStepTokens, own.begin, end, v, head_dim, ahead,
                  acc + (size_t)i * head_dim);
  }
  if (common.begin < common.end) {
    value_some_rows(rows, p, common.begin, common.end, v, head_dim, ahead, acc);
  }
  for (uint32_t i = 1; common.end < kKvBlockTokens && i < rows; ++i) {
    const uint32_t own_end = seen_of(tile, r + i, start, kKvBlockTokens).end;
    if (own_end <= common.end) continue;
    value_rows<1>(p + i * kStepTokens, common.end, own_end, v, head_dim, ahead,
                  acc + (size_t)i * head_dim);
  }
}

template <class Value>
void value_block(const Tile& tile, const Step& step, uint32_t b, const Value* v,
                 const uint16_t* ahead) {
  const uint32_t head_dim = tile.args->head_dim;
  const uint32_t start = b * kKvBlockTokens;
  const float* weights = tile.scratch.scores + start - step.position;
  for (uint32_t r = 0; r < tile.rows; r += kRegisterRows) {
    const uint32_t left = tile.rows - r;
    const uint32_t rows = left < kRegisterRows ? left : (uint32_t)kRegisterRows;
    const float* p = weights + r * kStepTokens;
    if (step.whole) {
      value_some_rows(rows, p, 0, kKvBlockTokens, v, head_dim, ahead,
                      tile.scratch.acc + (size_t)r * head_dim);
    } else {
      value_ragged(tile, r, rows, v, ahead, start, p);
    }
  }
}

void value_step(const Tile& tile, const Step& step) {
  const uint32_t half = tile.args->head_dim * kKvBlockTokens;  // values of K, and of V, in a block
  for (uint32_t b = step.begin; b < step.end; ++b) {
    const uint16_t* v = kv_block(*tile.args, b) + half;
    if (tile.rows > kRegisterRows) {
      widen(v, half, tile.scratch.wide);
      value_block(tile, step, b, (const float*)tile.scratch.wide, v);
    } else {
      value_block(tile, step, b, v, next_half(tile, step, 1, b));
    }
  }
}

// --- Tiles ---

// 64 positions for all rows of the tile.
void attend_step(const Tile& tile, uint32_t position) {
  Step step;
  step.position = position;
  step.blocks_all = (tile.positions + kKvBlockTokens - 1) / kKvBlockTokens;
  const uint32_t base = position / kKvBlockTokens;
  const uint32_t first_block = tile.first_seen / kKvBlockTokens;
  step.begin = first_block > base ? first_block : base;
  step.end = base + kStepBlocks;
  if (step.end > step.blocks_all) step.end = step.blocks_all;
  step.whole = seen_of(tile, 0, position, kStepTokens).end == kStepTokens &&
               seen_of(tile, tile.rows - 1, position, kStepTokens).begin == 0;
  if (tile.rows > kRegisterRows) {
    score_widened(tile, step);
  } else {
    score_stored(tile, step);
  }
  softmax_rows(tile, step);
  value_step(tile, step);
}

void attend_tile(const Tile& tile) {
  const AttendArgs& args = *tile.args;
  const Scratch& s = tile.scratch;
  const uint32_t head_dim = args.head_dim;
  const float q_scale = args.soft_cap > 0 ? args.scale / args.soft_cap : args.scale * kLog2E;
  for (uint32_t r = 0; r < tile.rows; ++r) {
    const size_t token = tile.first_token + r / args.group;
    const float* q = args.q + token * args.q_stride + (size_t)(r % args.group) * head_dim;
    scale_row(q, q_scale, head_dim, s.q + (size_t)r * head_dim);
    __builtin_memset(s.acc + (size_t)r * head_dim, 0, head_dim * sizeof(float));
    s.max[r] = -__builtin_inff();
    s.weight_sum[r] = 0;
  }

  for (uint32_t step = tile.first_seen / kStepTokens * kStepTokens; step < tile.positions;
       step += kStepTokens) {
    attend_step(tile, step);
  }

  for (uint32_t r = 0; r < tile.rows; ++r) {
    const size_t token = tile.first_token + r / args.group;
    float* out = args.out + token * args.out_stride + (size_t)(r % args.group) * head_dim;
    scale_row(s.acc + (size_t)r * head_dim, 1.0f / s.weight_sum[r], head_dim, out);
  }
}

// With head_dim a multiple of 16 every part starts on a cache line.
Scratch lay_out(float* scratch, uint32_t rows, uint32_t head_dim) {
  Scratch s;
  s.scores = scratch;
  s.q = s.scores + (size_t)rows * kStepTokens;
  s.acc = s.q + (size_t)rows * head_dim;
  s.wide = s.acc + (size_t)rows * head_dim;
  s.max = s.wide + kWideBlocks * kKvBlockTokens * head_dim;
  s.weight_sum = s.max + round_up_16(rows);
  return s;
}

}  // namespace

size_t attend_scratch_floats(uint32_t tokens, uint32_t group, uint32_t head_dim) {
  const size_t rows = (size_t)tile_tokens(tokens, group) * group;
  return rows * (2 * head_dim + kStepTokens) + kWideBlocks * kKvBlockTokens * head_dim +
         2 * round_up_16((uint32_t)rows);
}

void attend(const AttendArgs& args) {
  const uint32_t step = tile_tokens(args.tokens, args.group);
  Tile tile;
  tile.args = &args;
  tile.scratch = lay_out(args.scratch, step * args.group, args.head_dim);
  for (uint32_t t = 0; t < args.tokens; t += step) {
    const uint32_t tokens = args.tokens - t < step ? args.tokens - t : step;
    tile.first_token = t;
    tile.rows = tokens * args.group;
    tile.first_seen = window_begin(args, args.first_position + t);  // the first looks back furthest
    tile.positions = args.first_position + t + tokens;
    attend_tile(tile);
  }
}

}  // namespace pacer::kernels::avx512
