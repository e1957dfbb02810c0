#include "model/layers.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/math.h"

namespace pacer::model {

static_assert(kv::kBlockTokens == kernels::kKvBlockTokens,
              "the KV layout is shared by kv and kernels");

namespace {

std::span<const Linear* const> as_span(Consumers consumers) {
  return {consumers.begin(), consumers.size()};
}

}  // namespace

void embed(ForwardContext& ctx, const ForwardBatch& batch, const Linear& embedding) {
  for_each_row(ctx, batch.token_count(), [&](uint32_t row) {
    const TokenId token = batch.tokens[row];
    CHECK(token < embedding.rows, "token {} of a vocabulary of {}", token, embedding.rows);
    float* x = ctx.work.x.get() + size_t{row} * embedding.columns;
    ctx.kernels.unpack_row(embedding.format, embedding.packed, embedding.rows, embedding.columns,
                           token, x);
    const float scale = ctx.config.embedding_scale;
    if (scale == 1.0f) return;
    for (uint32_t i = 0; i < embedding.columns; ++i) x[i] *= scale;
  });
}

// Angles as the reference implementations compute them: frequency and product in f32 (Su et al.,
// "RoFormer", 2021).
void prepare_rows(ForwardContext& ctx, const ForwardBatch& batch) {
  Workspace& w = ctx.work;
  for (uint32_t index = 0; index < batch.sequences.size(); ++index) {
    const SeqSpan& seq = batch.sequences[index];
    std::fill_n(w.sequence_of.get() + seq.first_token, seq.token_count, index);
  }
  for_each_row(ctx, batch.token_count(), [&](uint32_t row) {
    const SeqSpan& seq = batch.sequences[w.sequence_of.get()[row]];
    const auto position = static_cast<float>(seq.first_position + row - seq.first_token);
    for (uint32_t set = 0; set < ctx.config.ropes.size(); ++set) {
      const RopeConfig& rope = ctx.config.ropes[set];
      const size_t at = w.rope_at(set, row, rope.dims);
      for (uint32_t i = 0; i < rope.dims / 2; ++i) {
        const float angle = position * rope.frequencies[i];
        w.rope_cos.get()[at + i] = std::cos(angle) * rope.magnitude;
        w.rope_sin.get()[at + i] = std::sin(angle) * rope.magnitude;
      }
    }
  });
}

namespace {

// x[row] += residual; activations[index] = rms_norm(x[row]) * weight.
void add_and_norm_row(ForwardContext& ctx, uint32_t row, const Residual& residual,
                      const float* weight, uint32_t index) {
  const uint32_t n = ctx.config.d_model;
  const float epsilon = ctx.config.rms_epsilon;
  float* x = ctx.work.x.get() + size_t{row} * n;
  if (residual.add != nullptr) {
    float* add = residual.add + size_t{row} * n;
    if (residual.bias != nullptr) ctx.kernels.add(add, residual.bias, n, add);
    if (residual.post_norm != nullptr) {
      ctx.kernels.rms_norm(add, residual.post_norm, epsilon, n, add);
    }
    ctx.kernels.add(x, add, n, x);
  }
  float* out = ctx.work.activations.f32_row(index);
  if (weight != nullptr) {
    ctx.kernels.rms_norm(x, weight, epsilon, n, out);
  } else {
    std::copy_n(x, n, out);
  }
  ctx.work.activations.finish_row(ctx.kernels, index);
}

}  // namespace

void add_and_norm(ForwardContext& ctx, uint32_t rows, const Residual& residual, const float* weight,
                  Consumers consumers) {
  ctx.work.activations.reset(ctx.kernels, rows, ctx.config.d_model, as_span(consumers));
  for_each_row(ctx, rows, [&](uint32_t row) { add_and_norm_row(ctx, row, residual, weight, row); });
}

void add_and_norm_rows(ForwardContext& ctx, std::span<const uint32_t> rows,
                       const Residual& residual, const float* weight, Consumers consumers) {
  const auto count = static_cast<uint32_t>(rows.size());
  ctx.work.activations.reset(ctx.kernels, count, ctx.config.d_model, as_span(consumers));
  for_each_row(ctx, count, [&](uint32_t index) {
    add_and_norm_row(ctx, rows[index], residual, weight, index);
  });
}

void take_rows(ForwardContext& ctx, uint32_t rows, const float* source, uint32_t columns,
               Consumers consumers) {
  ActivationBuffer& activations = ctx.work.activations;
  activations.reset(ctx.kernels, rows, columns, as_span(consumers));
  for_each_row(ctx, rows, [&](uint32_t row) {
    std::copy_n(source + size_t{row} * columns, columns, activations.f32_row(row));
    activations.finish_row(ctx.kernels, row);
  });
}

void gate_into(ForwardContext& ctx, uint32_t rows, uint32_t columns, ActivationBuffer& activations,
               std::span<const Linear* const> consumers) {
  const auto act_mul =
      ctx.config.gate == GateActivation::kSilu ? ctx.kernels.silu_mul : ctx.kernels.gelu_mul;
  activations.reset(ctx.kernels, rows, columns, consumers);
  for_each_row(ctx, rows, [&](uint32_t row) {
    const size_t at = size_t{row} * columns;
    act_mul(ctx.work.gate.get() + at, ctx.work.up.get() + at, columns, activations.f32_row(row));
    activations.finish_row(ctx.kernels, row);
  });
}

void gate_rows(ForwardContext& ctx, uint32_t rows, uint32_t columns, Consumers consumers) {
  gate_into(ctx, rows, columns, ctx.work.activations, as_span(consumers));
}

namespace {

// Weight rows per tile: enough work to be worth a claim (about 5 us at 30 G multiply-adds/s), few
// enough tiles that the last one does not keep everyone waiting, and a multiple of the packed row
// group.
uint32_t tile_rows(uint32_t weight_rows_total, uint32_t columns, uint32_t rows, uint32_t workers) {
  constexpr uint64_t kTileWork = 150'000;
  const auto by_work = static_cast<uint32_t>(kTileWork / (uint64_t{columns} * rows) + 1);
  const uint32_t by_balance = div_ceil(weight_rows_total, workers * 8);
  return round_up(std::max(by_work, by_balance), kernels::kRowGroup);
}

// Weight rows [begin, end) of a product, in the forms of the activations that tier and matrix want.
void multiply_rows(ForwardContext& ctx, const ActivationBuffer& activations, const Product& product,
                   uint32_t begin, uint32_t end) {
  const Linear& matrix = *product.matrix;
  const bool q8 = ctx.kernels.activation_kind[static_cast<size_t>(matrix.format)] ==
                  kernels::ActivationKind::kQ8;
  kernels::GemmArgs args{.format = matrix.format,
                         .packed = matrix.packed,
                         .rows = matrix.rows,
                         .x = q8 ? activations.q8(product.first_row, product.rows)
                                 : activations.f32(product.first_row, product.rows),
                         .out = product.out,
                         .out_stride = matrix.rows,
                         .row_begin = begin,
                         .row_end = end};
  ctx.kernels.gemm(args);
  if (q8 && matrix.precision == Precision::kInt16) {
    args.x = activations.q8_rest(product.first_row, product.rows);
    args.accumulate = true;
    ctx.kernels.gemm(args);
  }
}

}  // namespace

// Tiles of all products are one range, so that small products share a pass. Products of one pass
// are cut alike, for the most rows among them.
void multiply_all(ForwardContext& ctx, const ActivationBuffer& activations,
                  std::span<const Product> products) {
  uint32_t weight_rows = 0;
  uint32_t rows_max = 0;
  for (const Product& product : products) {
    weight_rows += product.matrix->rows;
    rows_max = std::max(rows_max, product.rows);
  }
  if (rows_max == 0) return;
  const uint32_t tile =
      tile_rows(weight_rows, products[0].matrix->columns, rows_max, ctx.pool.thread_count());
  uint32_t tiles = 0;
  for (const Product& product : products) tiles += div_ceil(product.matrix->rows, tile);

  ctx.pool.parallel_for(tiles, [&](uint32_t index, uint32_t) {
    const Product* product = products.data();
    while (index >= div_ceil(product->matrix->rows, tile)) {
      index -= div_ceil((product++)->matrix->rows, tile);
    }
    multiply_rows(ctx, activations, *product, index * tile,
                  std::min((index + 1) * tile, product->matrix->rows));
  });
}

void multiply(ForwardContext& ctx, uint32_t rows, std::initializer_list<Product> products) {
  constexpr size_t kProductsMax = 4;
  CHECK(products.size() <= kProductsMax, "{} products in one pass", products.size());
  Product all[kProductsMax];
  size_t count = 0;
  for (const Product& product : products) {
    all[count] = product;
    all[count++].rows = rows;
  }
  multiply_all(ctx, ctx.work.activations, {all, count});
}

namespace {

// Bias, then norm, of one row's queries or keys.
void prepare_heads(ForwardContext& ctx, float* x, uint32_t heads, const float* bias,
                   const float* norm) {
  const uint32_t dim = ctx.config.head_dim;
  if (bias != nullptr) ctx.kernels.add(x, bias, heads * dim, x);
  if (norm == nullptr) return;
  const bool per_head = ctx.config.qk_norm == QkNorm::kHead;
  const uint32_t width = per_head ? dim : heads * dim;
  for (uint32_t at = 0; at < heads * dim; at += width) {
    ctx.kernels.rms_norm(x + at, norm, ctx.config.rms_epsilon, width, x + at);
  }
}

}  // namespace

void rotate_and_store(ForwardContext& ctx, const ForwardBatch& batch, uint32_t layer,
                      const Attention& attention) {
  const ModelConfig& config = ctx.config;
  Workspace& w = ctx.work;
  const uint32_t set = config.layer_config[layer].rope;
  const RopeConfig& rope_config = config.ropes[set];
  for_each_row(ctx, batch.token_count(), [&](uint32_t row) {
    float* q = w.q.get() + size_t{row} * config.q_values();
    float* k = w.k.get() + size_t{row} * config.kv_values();
    float* v = w.v.get() + size_t{row} * config.kv_values();
    prepare_heads(ctx, q, config.heads, attention.q_bias, attention.q_norm);
    prepare_heads(ctx, k, config.kv_heads, attention.k_bias, attention.k_norm);
    if (attention.v_bias != nullptr) {
      ctx.kernels.add(v, attention.v_bias, config.kv_values(), v);
    }
    const size_t angles = w.rope_at(set, row, rope_config.dims);
    kernels::RopeArgs rope{.x = q,
                           .heads = config.heads,
                           .head_dim = config.head_dim,
                           .dims = rope_config.dims,
                           .pairing = rope_config.pairing,
                           .cos = w.rope_cos.get() + angles,
                           .sin = w.rope_sin.get() + angles};
    ctx.kernels.rope(rope);
    rope.x = k;
    rope.heads = config.kv_heads;
    ctx.kernels.rope(rope);

    const SeqSpan& seq = batch.sequences[w.sequence_of.get()[row]];
    const uint32_t position = seq.first_position + row - seq.first_token;
    ctx.kernels.store_kv({.k = k,
                          .v = v,
                          .kv_heads = config.kv_heads,
                          .head_dim = config.head_dim,
                          .block = ctx.kv.block(layer, seq.blocks[position / kv::kBlockTokens]),
                          .slot = position % kv::kBlockTokens});
  });
}

void attend(ForwardContext& ctx, const ForwardBatch& batch, uint32_t layer) {
  const ModelConfig& config = ctx.config;
  const auto tiles_of = [](const SeqSpan& seq) {
    return div_ceil(seq.token_count, Workspace::kAttendTokens);
  };
  uint32_t tiles = 0;
  for (const SeqSpan& seq : batch.sequences) tiles += tiles_of(seq);

  // A tile: some query tokens of one sequence, for the query heads of one kv head.
  ctx.pool.parallel_for(tiles * config.kv_heads, [&](uint32_t index, uint32_t worker) {
    const uint32_t kv_head = index % config.kv_heads;
    uint32_t tile = index / config.kv_heads;
    const SeqSpan* seq = batch.sequences.data();
    while (tile >= tiles_of(*seq)) tile -= tiles_of(*seq++);

    const uint32_t first = tile * Workspace::kAttendTokens;
    const size_t offset = size_t{seq->first_token + first} * config.q_values() +
                          size_t{kv_head} * config.group() * config.head_dim;
    ctx.kernels.attend(
        {.q = ctx.work.q.get() + offset,
         .q_stride = config.q_values(),
         .out = ctx.work.attended.get() + offset,
         .out_stride = config.q_values(),
         .tokens = std::min(Workspace::kAttendTokens, seq->token_count - first),
         .group = config.group(),
         .head_dim = config.head_dim,
         .first_position = seq->first_position + first,
         .scale = config.attention_scale,
         .window = config.layer_config[layer].window,
         .soft_cap = config.attention_soft_cap,
         .kv = ctx.kv.layer_head(layer, kv_head),
         .block_stride = ctx.kv.block_stride(),
         // Kernels know block ids as plain numbers.
         .block_table = reinterpret_cast<const uint32_t*>(seq->blocks.data()),
         .scratch = ctx.work.attend_scratch.get() + worker * ctx.work.attend_floats});
  });
}

void cap_logits(ForwardContext& ctx, uint32_t rows, float* logits) {
  const float cap = ctx.config.logit_soft_cap;
  if (cap == 0) return;
  const uint32_t n = ctx.config.vocabulary;
  constexpr uint32_t kTile = 16384;  // logits
  const uint32_t tiles = div_ceil(n, kTile);
  ctx.pool.parallel_for(rows * tiles, [&](uint32_t index, uint32_t) {
    const uint32_t begin = index % tiles * kTile;
    float* at = logits + size_t{index / tiles} * n + begin;
    ctx.kernels.soft_cap(at, cap, std::min(kTile, n - begin), at);
  });
}

}  // namespace pacer::model
