// The building blocks of a network in terms of kernels: each is one parallel pass over rows or
// tiles.
//
// Rows are tokens of the batch. Every result for a row depends on that row (and its sequence's KV)
// alone.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>

#include "model/forward_batch.h"
#include "model/forward_context.h"

namespace pacer::model {

// x[row] = embedding of the row's token.
void embed(ForwardContext& ctx, const ForwardBatch& batch, const Linear& embedding);

// What every layer needs to know of each row: its sequence and its rotation angles. Before the
// first layer.
void prepare_rows(ForwardContext& ctx, const ForwardBatch& batch);

// The consumers of an activation: the matrices it will be multiplied with next.
using Consumers = std::initializer_list<const Linear*>;

// x += add (when not null); activations = rms_norm(x) * weight.
void add_and_norm(ForwardContext& ctx, uint32_t rows, const float* add, const float* weight,
                  Consumers consumers);

// activations = rms_norm(x of these rows + add) * weight: the last norm, only where logits are
// wanted.
void add_and_norm_rows(ForwardContext& ctx, std::span<const uint32_t> rows, const float* add,
                       const float* weight, Consumers consumers);

// activations = source [rows][columns]
void take_rows(ForwardContext& ctx, uint32_t rows, const float* source, uint32_t columns,
               Consumers consumers);

// activations = silu(gate) * up
void silu_gate(ForwardContext& ctx, uint32_t rows, Consumers consumers);

// out [rows][matrix.rows] = activations * matrix^T, for several matrices in one pass.
struct Product {
  const Linear* matrix;
  float* out;
};
void multiply(ForwardContext& ctx, uint32_t rows, std::initializer_list<Product> products);

// Rotates q and k, and puts k and v into the KV cache.
void rotate_and_store(ForwardContext& ctx, const ForwardBatch& batch, uint32_t layer);

// attended = causal attention of q over the KV cache.
void attend(ForwardContext& ctx, const ForwardBatch& batch, uint32_t layer);

}  // namespace pacer::model
