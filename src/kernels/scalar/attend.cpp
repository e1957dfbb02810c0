// Causal attention over the paged KV cache: the specification.
//
// Block by block: a block of 16 tokens is widened from f16 once, then every query row (a query
// token and a head of the group) takes it in with an online softmax. A row sees the same blocks in
// the same order whatever other rows are in the call. It never uses a slot beyond its own position
// or before its window, whose contents may be anything; blocks that no row of the call sees are not
// touched at all: whoever manages them may have given them away.

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/math.h"
#include "kernels/scalar/kernels.h"
#include "tensor/dtype.h"

namespace pacer::kernels::scalar {

namespace {

constexpr uint32_t kHeadDimMax = 256;

// One (block, kv head), widened. See StoreKvArgs for the f16 layout.
struct WideBlock {
  float k[kHeadDimMax * kKvBlockTokens];  // [head_dim][16 tokens]
  float v[kKvBlockTokens * kHeadDimMax];  // [16 tokens][head_dim]
};

// What a query row has seen so far: out = accumulated / weight_sum, weights relative to exp(max).
struct RowState {
  float* max;
  float* weight_sum;
  float* accumulated;  // [head_dim]
};

RowState row_state(const AttendArgs& args, uint32_t row) {
  float* at = args.scratch + static_cast<size_t>(row) * (args.head_dim + 2);
  return {at, at + 1, at + 2};
}

void widen(const uint16_t* block, uint32_t head_dim, uint32_t tokens, WideBlock& wide) {
  const uint16_t* v = block + head_dim * kKvBlockTokens;
  for (uint32_t d = 0; d < head_dim; ++d) {
    for (uint32_t t = 0; t < tokens; ++t) {
      wide.k[d * kKvBlockTokens + t] = tensor::f16_to_f32(block[d * kKvBlockTokens + t]);
      wide.v[t * head_dim + d] = tensor::f16_to_f32(v[t * head_dim + d]);
    }
  }
}

// The first position that the query token at `position` attends to.
uint32_t window_begin(const AttendArgs& args, uint32_t position) {
  return args.window == 0 || position < args.window ? 0 : position - args.window + 1;
}

// Takes the tokens [begin, end) of the block, at least one, into the row's softmax.
void attend_block(const AttendArgs& args, const float* q, const WideBlock& block, uint32_t begin,
                  uint32_t end, const RowState& row) {
  float score[kKvBlockTokens] = {};
  for (uint32_t d = 0; d < args.head_dim; ++d) {
    for (uint32_t t = begin; t < end; ++t) score[t] += q[d] * block.k[d * kKvBlockTokens + t];
  }

  float max = *row.max;
  for (uint32_t t = begin; t < end; ++t) {
    score[t] *= args.scale;
    if (args.soft_cap > 0) score[t] = args.soft_cap * std::tanh(score[t] / args.soft_cap);
    max = std::fmax(max, score[t]);
  }

  const float shrink = std::exp(*row.max - max);  // 0 at the first block: exp(-inf)
  *row.max = max;
  *row.weight_sum *= shrink;
  for (uint32_t d = 0; d < args.head_dim; ++d) row.accumulated[d] *= shrink;

  for (uint32_t t = begin; t < end; ++t) {
    const float weight = std::exp(score[t] - max);
    *row.weight_sum += weight;
    const float* v = block.v + t * args.head_dim;
    for (uint32_t d = 0; d < args.head_dim; ++d) row.accumulated[d] += weight * v[d];
  }
}

}  // namespace

void store_kv(const StoreKvArgs& args) {
  const uint32_t half = args.head_dim * kKvBlockTokens;  // values of K, and of V, of one kv head
  for (uint32_t head = 0; head < args.kv_heads; ++head) {
    uint16_t* k = args.block + static_cast<size_t>(head) * 2 * half;
    uint16_t* v = k + half;
    for (uint32_t d = 0; d < args.head_dim; ++d) {
      const size_t from = static_cast<size_t>(head) * args.head_dim + d;
      k[d * kKvBlockTokens + args.slot] = tensor::f32_to_f16(args.k[from]);
      v[args.slot * args.head_dim + d] = tensor::f32_to_f16(args.v[from]);
    }
  }
}

size_t attend_scratch_floats(uint32_t tokens, uint32_t group, uint32_t head_dim) {
  return static_cast<size_t>(tokens) * group * (head_dim + 2);
}

void attend(const AttendArgs& args) {
  CHECK(args.head_dim % 8 == 0 && args.head_dim <= kHeadDimMax, "head_dim {}", args.head_dim);
  const uint32_t rows = args.tokens * args.group;
  for (uint32_t r = 0; r < rows; ++r) {
    const RowState row = row_state(args, r);
    *row.max = -INFINITY;
    *row.weight_sum = 0;
    for (uint32_t d = 0; d < args.head_dim; ++d) row.accumulated[d] = 0;
  }

  const uint32_t positions = args.first_position + args.tokens;
  WideBlock wide;
  // The first query token looks back furthest.
  const uint32_t first_seen = window_begin(args, args.first_position);
  for (uint32_t begin = first_seen / kKvBlockTokens * kKvBlockTokens; begin < positions;
       begin += kKvBlockTokens) {
    const uint16_t* block = args.kv + args.block_table[begin / kKvBlockTokens] * args.block_stride;
    const uint32_t stored = positions - begin < kKvBlockTokens ? positions - begin : kKvBlockTokens;
    widen(block, args.head_dim, stored, wide);
    for (uint32_t r = 0; r < rows; ++r) {
      const uint32_t t = r / args.group;
      const uint32_t position = args.first_position + t;
      const uint32_t from = std::max(window_begin(args, position), begin);
      const uint32_t to = std::min(position + 1, begin + stored);
      if (from >= to) continue;
      const float* q = args.q + t * args.q_stride + (r % args.group) * args.head_dim;
      attend_block(args, q, wide, from - begin, to - begin, row_state(args, r));
    }
  }

  for (uint32_t r = 0; r < rows; ++r) {
    const RowState row = row_state(args, r);
    float* out = args.out + (r / args.group) * args.out_stride + (r % args.group) * args.head_dim;
    for (uint32_t d = 0; d < args.head_dim; ++d) out[d] = row.accumulated[d] / *row.weight_sum;
  }
}

}  // namespace pacer::kernels::scalar
