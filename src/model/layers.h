// The building blocks of a network in terms of kernels: each is one parallel pass over rows or
// tiles.
//
// Rows are tokens of the batch. Every result for a row depends on that row (and its sequence's KV)
// alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "base/math.h"
#include "model/forward_batch.h"
#include "model/forward_context.h"

namespace pacer::model {

// Rows are cheap on their own: a tile of them is worth waking a worker for.
constexpr uint32_t kRowsPerTile = 4;

template <class F>
void for_each_row(ForwardContext& ctx, uint32_t rows, F&& f) {
  ctx.pool.parallel_for(div_ceil(rows, kRowsPerTile), [&](uint32_t tile, uint32_t) {
    const uint32_t end = std::min(rows, (tile + 1) * kRowsPerTile);
    for (uint32_t row = tile * kRowsPerTile; row < end; ++row) f(row);
  });
}

// x[row] = embedding of the row's token, times the config's scale.
void embed(ForwardContext& ctx, const ForwardBatch& batch, const Linear& embedding);

// What every layer needs to know of each row: its sequence and its rotation angles. Before the
// first layer.
void prepare_rows(ForwardContext& ctx, const ForwardBatch& batch);

// The consumers of an activation: the matrices it will be multiplied with next.
using Consumers = std::initializer_list<const Linear*>;

// What a block adds to x: y, or its norm.
struct Residual {
  float* add = nullptr;              // [T][d_model]; null: nothing
  const float* bias = nullptr;       // [d_model], added to it first; null: none
  const float* post_norm = nullptr;  // its RMS norm first, with this weight
};

// x += residual; activations = rms_norm(x) * weight (null: x itself).
void add_and_norm(ForwardContext& ctx, uint32_t rows, const Residual& residual, const float* weight,
                  Consumers consumers);

// The same where activations are x of these rows: the last norm, only where logits are wanted.
void add_and_norm_rows(ForwardContext& ctx, std::span<const uint32_t> rows,
                       const Residual& residual, const float* weight, Consumers consumers);

// activations = source [rows][columns]
void take_rows(ForwardContext& ctx, uint32_t rows, const float* source, uint32_t columns,
               Consumers consumers);

// activations = act(gate) * up, [rows][columns]; act is the config's.
void gate_rows(ForwardContext& ctx, uint32_t rows, uint32_t columns, Consumers consumers);
void gate_into(ForwardContext& ctx, uint32_t rows, uint32_t columns, ActivationBuffer& activations,
               std::span<const Linear* const> consumers);

// out [rows][matrix.rows] = activations * matrix^T, for several matrices in one pass.
void multiply(ForwardContext& ctx, uint32_t rows, std::initializer_list<Product> products);
// Each product with its own rows.
void multiply_all(ForwardContext& ctx, const ActivationBuffer& activations,
                  std::span<const Product> products);

// The projections of attention and what is done to queries and keys; null: not done.
struct Attention {
  Linear q;     // [heads * head_dim][d_model]
  Linear k, v;  // [kv_heads * head_dim][d_model]
  Linear out;   // [d_model][heads * head_dim]
  const float *q_bias = nullptr, *k_bias = nullptr, *v_bias = nullptr, *out_bias = nullptr;
  const float *q_norm = nullptr, *k_norm = nullptr;  // as config.qk_norm says
};

// Keys and values are read again by every later token, so their rounding is paid over and over.
// Measured on SmolLM2, AVX2: mean log-probability error 0.089 -> 0.069 for 6 % more work.
constexpr Precision kKeyValuePrecision = Precision::kInt16;

// Biases, norms and rotates q and k, and puts k and v into the KV cache.
void rotate_and_store(ForwardContext& ctx, const ForwardBatch& batch, uint32_t layer,
                      const Attention& attention);

// attended = causal attention of q over the KV cache.
void attend(ForwardContext& ctx, const ForwardBatch& batch, uint32_t layer);

// logits = cap * tanh(logits / cap), where the config has a cap.
void cap_logits(ForwardContext& ctx, uint32_t rows, float* logits);

}  // namespace pacer::model
