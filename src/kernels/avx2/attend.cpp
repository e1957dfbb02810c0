// Causal attention over the paged KV cache, many query rows at a time.
//
// A query row is a (query token, head of the group). Rows go in tiles of about 48; for each tile
// the KV is walked in steps of 64 positions (4 blocks):
//
//   scores   s[row][64] = q[row] . K: a vector holds 8 tokens (K is stored transposed), so nothing
//            is summed horizontally
//   softmax  per row: the new maximum, p = 2^(s - max), the factor by which earlier sums shrink
//   values   acc[row] += p . V: a vector holds 8 dimensions
//
// q is multiplied by scale * log2(e) first, so exponentials are powers of two; with a soft cap by
// scale / cap, and tanh then gives scores that are multiplied by cap * log2(e). With more than 6
// rows a block is widened from f16 once into a 16 x head_dim buffer (L1) for all of them; with
// fewer, straight into registers.
//
// A row's result is the same in any call: its steps start at fixed positions, each score is one
// chain over the dimensions, each output one chain over the positions it may see. Slots beyond a
// row's own position, or before its window, are never used: their scores become -infinity, and the
// value loop passes them by, so they may hold anything, NaN included. A tile starts at the first
// block that its first row sees.
//
// Bound, one query token: memory. While the 4 blocks of a step are read, first K then V, the next 4
// are prefetched line by line in the order of their addresses. Bound, many tokens: multiply-adds.
//
// Measured on one core of a Sapphire Rapids guest, 3 heads of 64 dimensions: one token 17 GB/s from
// L2; 8.7 GB/s from memory with blocks in random order, where plain reads of such blocks give 8-10.
// 512 tokens 68 GFLOP/s, of 118 of the multiply-adds alone.

#include <immintrin.h>

#include "kernels/avx2/attend_tiles.h"
#include "kernels/avx2/kernels.h"
#include "kernels/avx2/simd.h"

namespace pacer::kernels::avx2 {

namespace {

// Query rows that share a widened block; their state (about 24 KB) fits L1 beside it.
constexpr uint32_t kTileRowsTarget = 48;

constexpr float kLog2E = 1.44269504f;

struct Scratch {
  float* q;           // [rows][head_dim], scaled
  float* acc;         // [rows][head_dim]
  float* scores;      // [rows][64], then the weights p
  float* max;         // [rows]
  float* weight_sum;  // [rows]
  float* wide;        // [16 * head_dim]: one widened K or V block
};

// What the helpers below share about one tile of query rows.
struct Tile {
  const AttendArgs* args;
  Scratch scratch;
  uint32_t first_token;  // of the call's query tokens
  uint32_t rows;         // query tokens of the tile * group
  uint32_t positions;    // seen by the tile's last token
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

// Tokens [begin, end) of a stretch of positions; none when begin >= end.
struct Seen {
  uint32_t begin;
  uint32_t end;
};

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

// Scores of one or two blocks for every row of the tile.
template <class Value>
void score_blocks(const Tile& tile, uint32_t blocks, const Value* const* k,
                  const uint16_t* const* ahead, uint32_t offset) {
  const uint32_t head_dim = tile.args->head_dim;
  for (uint32_t r = 0; r < tile.rows; r += kRegisterRows) {
    score_some_rows(tile.rows - r, blocks, tile.scratch.q + (size_t)r * head_dim, head_dim, k,
                    ahead, tile.scratch.scores + r * kStepTokens + offset);
  }
}

// Values of one block, whose first position is `start`, into every row of the tile: tokens that all
// rows of a register tile see together, and before and after them the ragged ends of window and
// causality row by row, so that a row adds its tokens in order. Rows are in order of position: the
// last one's window begins last, and the first one's tokens end first.
template <class Value>
void value_block(const Tile& tile, const Value* v, const uint16_t* ahead, uint32_t start,
                 uint32_t offset) {
  const uint32_t head_dim = tile.args->head_dim;
  for (uint32_t r = 0; r < tile.rows; r += kRegisterRows) {
    const uint32_t left = tile.rows - r;
    const uint32_t rows = left < kRegisterRows ? left : (uint32_t)kRegisterRows;
    const float* p = tile.scratch.scores + r * kStepTokens + offset;
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
}

// Scores seen[begin, end) of a row, which are score / cap, become cap * tanh(score / cap), times
// log2(e). Whole vectors: what is around them is masked afterwards.
void cap_scores(float* scores, Seen seen, float cap) {
  const __m256 scale = _mm256_set1_ps(cap * kLog2E);
  for (uint32_t i = seen.begin & ~7u; i < seen.end; i += 8) {
    const __m256 t = tanh_f32(_mm256_load_ps(scores + i));
    _mm256_store_ps(scores + i, _mm256_mul_ps(t, scale));
  }
}

// The scores of a row outside [begin, end), within the vectors at both ends, become -infinity.
void mask_ends(float* scores, Seen seen) {
  const __m256 lowest = _mm256_set1_ps(-__builtin_inff());
  if (seen.begin % 8 != 0) {
    float* at = scores + (seen.begin & ~7u);
    const __m256 before = _mm256_castsi256_ps(first_lanes(seen.begin % 8));
    _mm256_store_ps(at, _mm256_blendv_ps(_mm256_load_ps(at), lowest, before));
  }
  if (seen.end % 8 != 0) {
    float* at = scores + (seen.end & ~7u);
    const __m256 kept = _mm256_castsi256_ps(first_lanes(seen.end % 8));
    _mm256_store_ps(at, _mm256_blendv_ps(lowest, _mm256_load_ps(at), kept));
  }
}

// Turns the scores that a row sees into weights, and returns the factor by which the row's earlier
// sums shrink.
float softmax_step(float* scores, Seen seen, float* row_max, float* weight_sum) {
  mask_ends(scores, seen);
  const uint32_t first = seen.begin & ~7u;
  __m256 max = _mm256_set1_ps(*row_max);
  for (uint32_t i = first; i < seen.end; i += 8) {
    max = _mm256_max_ps(max, _mm256_load_ps(scores + i));
  }
  const float new_max = max_lanes(max);

  const __m256 around = _mm256_set1_ps(new_max);
  __m256 sum = _mm256_setzero_ps();
  for (uint32_t i = first; i < seen.end; i += 8) {
    const __m256 p = exp2_f32(_mm256_sub_ps(_mm256_load_ps(scores + i), around));
    _mm256_store_ps(scores + i, p);
    sum = _mm256_add_ps(sum, p);
  }

  // exp2_f32(-infinity) is 0: nothing came before the first step.
  const float shrink = _mm256_cvtss_f32(exp2_f32(_mm256_set1_ps(*row_max - new_max)));
  *row_max = new_max;
  *weight_sum = *weight_sum * shrink + sum_lanes(sum);
  return shrink;
}

void scale_row(const float* from, float factor, uint32_t n, float* to) {
  const __m256 f = _mm256_set1_ps(factor);
  for (uint32_t i = 0; i < n; i += 8) {
    _mm256_storeu_ps(to + i, _mm256_mul_ps(_mm256_loadu_ps(from + i), f));
  }
}

void softmax_rows(const Tile& tile, uint32_t step) {
  const Scratch& s = tile.scratch;
  const uint32_t head_dim = tile.args->head_dim;
  for (uint32_t r = 0; r < tile.rows; ++r) {
    const Seen seen = seen_of(tile, r, step, kStepTokens);
    if (seen.begin >= seen.end) continue;
    float* scores = s.scores + r * kStepTokens;
    if (tile.args->soft_cap > 0) cap_scores(scores, seen, tile.args->soft_cap);
    const float shrink = softmax_step(scores, seen, s.max + r, s.weight_sum + r);
    float* acc = s.acc + (size_t)r * head_dim;
    if (shrink != 1.0f) scale_row(acc, shrink, head_dim, acc);
  }
}

// The blocks of one step, and of the sequence.
struct Step {
  uint32_t position;  // a multiple of 64
  uint32_t begin;     // block_table[begin .. end), from the first block that the tile sees
  uint32_t end;
  uint32_t blocks_all;
};

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

void score_step(const Tile& tile, const Step& step) {
  for (uint32_t b = step.begin; b < step.end;) {
    const uint32_t offset = b * kKvBlockTokens - step.position;
    const uint16_t* k[2] = {kv_block(*tile.args, b), 0};
    if (tile.rows > kRegisterRows) {
      const float* wide = tile.scratch.wide;
      widen(k[0], tile.args->head_dim * kKvBlockTokens, tile.scratch.wide);
      score_blocks(tile, 1, &wide, k, offset);
      b += 1;
      continue;
    }
    const uint16_t* ahead[2] = {next_half(tile, step, 0, b), 0};
    const uint32_t blocks = tile.rows <= 3 && b + 1 < step.end ? 2 : 1;
    if (blocks == 2) {
      k[1] = kv_block(*tile.args, b + 1);
      ahead[1] = next_half(tile, step, 0, b + 1);
    }
    score_blocks(tile, blocks, k, ahead, offset);
    b += blocks;
  }
}

void value_step(const Tile& tile, const Step& step) {
  const uint32_t half = tile.args->head_dim * kKvBlockTokens;  // values of K, and of V, in a block
  for (uint32_t b = step.begin; b < step.end; ++b) {
    const uint16_t* v = kv_block(*tile.args, b) + half;
    const uint32_t offset = b * kKvBlockTokens - step.position;
    if (tile.rows > kRegisterRows) {
      widen(v, half, tile.scratch.wide);
      value_block(tile, (const float*)tile.scratch.wide, v, b * kKvBlockTokens, offset);
    } else {
      value_block(tile, v, next_half(tile, step, 1, b), b * kKvBlockTokens, offset);
    }
  }
}

// 64 positions for all rows of the tile, of which `first_seen` and later ones are in a window.
void attend_step(const Tile& tile, uint32_t position, uint32_t first_seen) {
  Step step;
  step.position = position;
  step.blocks_all = (tile.positions + kKvBlockTokens - 1) / kKvBlockTokens;
  const uint32_t base = position / kKvBlockTokens;
  const uint32_t first_block = first_seen / kKvBlockTokens;
  step.begin = first_block > base ? first_block : base;
  step.end = base + kStepBlocks;
  if (step.end > step.blocks_all) step.end = step.blocks_all;
  score_step(tile, step);
  softmax_rows(tile, position);
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

  // The first row looks back furthest.
  const uint32_t first_seen = window_begin(args, args.first_position + tile.first_token);
  for (uint32_t step = first_seen / kStepTokens * kStepTokens; step < tile.positions;
       step += kStepTokens) {
    attend_step(tile, step, first_seen);
  }

  for (uint32_t r = 0; r < tile.rows; ++r) {
    const size_t token = tile.first_token + r / args.group;
    float* out = args.out + token * args.out_stride + (size_t)(r % args.group) * head_dim;
    scale_row(s.acc + (size_t)r * head_dim, 1.0f / s.weight_sum[r], head_dim, out);
  }
}

// Parts of the scratch start on multiples of 8 floats, so vector loads from them are aligned.
Scratch lay_out(float* scratch, uint32_t rows, uint32_t head_dim) {
  Scratch s;
  s.q = scratch;
  s.acc = s.q + (size_t)rows * head_dim;
  s.scores = s.acc + (size_t)rows * head_dim;
  s.wide = s.scores + (size_t)rows * kStepTokens;
  s.max = s.wide + kKvBlockTokens * head_dim;
  s.weight_sum = s.max + round_up_16(rows);
  return s;
}

}  // namespace

void store_kv(const StoreKvArgs& args) {
  const uint32_t half = args.head_dim * kKvBlockTokens;  // values of K, and of V, of one kv head
  for (uint32_t head = 0; head < args.kv_heads; ++head) {
    const float* from_k = args.k + (size_t)head * args.head_dim;
    const float* from_v = args.v + (size_t)head * args.head_dim;
    uint16_t* k = args.block + (size_t)head * 2 * half;
    uint16_t* v = k + half + args.slot * args.head_dim;
    for (uint32_t d = 0; d < args.head_dim; d += 8) {
      const __m128i v8 = _mm256_cvtps_ph(_mm256_loadu_ps(from_v + d), _MM_FROUND_TO_NEAREST_INT);
      _mm_storeu_si128((__m128i*)(v + d), v8);
      uint16_t k8[8];  // K is transposed: one token's values are 16 apart
      _mm_storeu_si128((__m128i*)k8,
                       _mm256_cvtps_ph(_mm256_loadu_ps(from_k + d), _MM_FROUND_TO_NEAREST_INT));
      for (uint32_t i = 0; i < 8; ++i) k[(d + i) * kKvBlockTokens + args.slot] = k8[i];
    }
  }
}

size_t attend_scratch_floats(uint32_t tokens, uint32_t group, uint32_t head_dim) {
  const size_t rows = (size_t)tile_tokens(tokens, group) * group;
  return rows * (2 * head_dim + kStepTokens) + kKvBlockTokens * head_dim +
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
    tile.positions = args.first_position + t + tokens;
    attend_tile(tile);
  }
}

}  // namespace pacer::kernels::avx2
