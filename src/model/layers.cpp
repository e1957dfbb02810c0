#include "model/layers.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/math.h"

namespace pacer::model {

static_assert(kv::kBlockTokens == kernels::kKvBlockTokens,
              "the KV layout is shared by kv and kernels");

namespace {

// Rows are cheap on their own: a tile of them is worth waking a worker for.
constexpr uint32_t kRowsPerTile = 4;

template <class F>
void for_each_row(ForwardContext& ctx, uint32_t rows, F&& f) {
  ctx.pool.parallel_for(div_ceil(rows, kRowsPerTile), [&](uint32_t tile, uint32_t) {
    const uint32_t end = std::min(rows, (tile + 1) * kRowsPerTile);
    for (uint32_t row = tile * kRowsPerTile; row < end; ++row) f(row);
  });
}

std::span<const Linear* const> as_span(Consumers consumers) {
  return {consumers.begin(), consumers.size()};
}

}  // namespace

void embed(ForwardContext& ctx, const ForwardBatch& batch, const Linear& embedding) {
  for_each_row(ctx, batch.token_count(), [&](uint32_t row) {
    const TokenId token = batch.tokens[row];
    CHECK(token < embedding.rows, "token {} of a vocabulary of {}", token, embedding.rows);
    ctx.kernels.unpack_row(embedding.format, embedding.packed, embedding.rows, embedding.columns,
                           token, ctx.work.x.get() + size_t{row} * embedding.columns);
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
  const uint32_t half = ctx.config.rope.dims / 2;
  for_each_row(ctx, batch.token_count(), [&](uint32_t row) {
    const SeqSpan& seq = batch.sequences[w.sequence_of.get()[row]];
    const auto position = static_cast<float>(seq.first_position + row - seq.first_token);
    for (uint32_t i = 0; i < half; ++i) {
      const float angle = position * w.rope_frequency.get()[i];
      w.rope_cos.get()[size_t{row} * half + i] = std::cos(angle);
      w.rope_sin.get()[size_t{row} * half + i] = std::sin(angle);
    }
  });
}

void add_and_norm(ForwardContext& ctx, uint32_t rows, const float* add, const float* weight,
                  Consumers consumers) {
  const uint32_t n = ctx.config.d_model;
  ActivationBuffer& activations = ctx.work.activations;
  activations.reset(ctx.kernels, rows, n, as_span(consumers));
  for_each_row(ctx, rows, [&](uint32_t row) {
    float* x = ctx.work.x.get() + size_t{row} * n;
    if (add != nullptr) ctx.kernels.add(x, add + size_t{row} * n, n, x);
    ctx.kernels.rms_norm(x, weight, ctx.config.rms_epsilon, n, activations.f32_row(row));
    activations.finish_row(ctx.kernels, row);
  });
}

void add_and_norm_rows(ForwardContext& ctx, std::span<const uint32_t> rows, const float* add,
                       const float* weight, Consumers consumers) {
  const uint32_t n = ctx.config.d_model;
  ActivationBuffer& activations = ctx.work.activations;
  activations.reset(ctx.kernels, static_cast<uint32_t>(rows.size()), n, as_span(consumers));
  for_each_row(ctx, static_cast<uint32_t>(rows.size()), [&](uint32_t index) {
    float* x = ctx.work.x.get() + size_t{rows[index]} * n;
    ctx.kernels.add(x, add + size_t{rows[index]} * n, n, x);
    ctx.kernels.rms_norm(x, weight, ctx.config.rms_epsilon, n, activations.f32_row(index));
    activations.finish_row(ctx.kernels, index);
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

void silu_gate(ForwardContext& ctx, uint32_t rows, Consumers consumers) {
  const uint32_t n = ctx.config.d_ff;
  ActivationBuffer& activations = ctx.work.activations;
  activations.reset(ctx.kernels, rows, n, as_span(consumers));
  for_each_row(ctx, rows, [&](uint32_t row) {
    ctx.kernels.silu_mul(ctx.work.gate.get() + size_t{row} * n, ctx.work.up.get() + size_t{row} * n,
                         n, activations.f32_row(row));
    activations.finish_row(ctx.kernels, row);
  });
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

// Rows [begin, end) of a product, in the forms of the activations that tier and matrix want.
void multiply_rows(ForwardContext& ctx, const Product& product, uint32_t begin, uint32_t end) {
  const Linear& matrix = *product.matrix;
  const bool q8 = ctx.kernels.activation_kind[static_cast<size_t>(matrix.format)] ==
                  kernels::ActivationKind::kQ8;
  const ActivationBuffer& activations = ctx.work.activations;
  kernels::GemmArgs args{.format = matrix.format,
                         .packed = matrix.packed,
                         .rows = matrix.rows,
                         .x = q8 ? activations.q8() : activations.f32(),
                         .out = product.out,
                         .out_stride = matrix.rows,
                         .row_begin = begin,
                         .row_end = end};
  ctx.kernels.gemm(args);
  if (q8 && matrix.precision == Precision::kInt16) {
    args.x = activations.q8_rest();
    args.accumulate = true;
    ctx.kernels.gemm(args);
  }
}

}  // namespace

void multiply(ForwardContext& ctx, uint32_t rows, std::initializer_list<Product> products) {
  if (rows == 0) return;
  uint32_t weight_rows = 0;
  for (const Product& product : products) weight_rows += product.matrix->rows;
  const uint32_t tile =
      tile_rows(weight_rows, products.begin()->matrix->columns, rows, ctx.pool.thread_count());
  uint32_t tiles = 0;
  for (const Product& product : products) tiles += div_ceil(product.matrix->rows, tile);

  ctx.pool.parallel_for(tiles, [&](uint32_t index, uint32_t) {
    const Product* product = products.begin();
    while (index >= div_ceil(product->matrix->rows, tile)) {
      index -= div_ceil((product++)->matrix->rows, tile);
    }
    multiply_rows(ctx, *product, index * tile, std::min((index + 1) * tile, product->matrix->rows));
  });
}

void rotate_and_store(ForwardContext& ctx, const ForwardBatch& batch, uint32_t layer) {
  const ModelConfig& config = ctx.config;
  Workspace& w = ctx.work;
  const uint32_t half = config.rope.dims / 2;
  for_each_row(ctx, batch.token_count(), [&](uint32_t row) {
    float* k = w.k.get() + size_t{row} * config.kv_values();
    kernels::RopeArgs rope{.x = w.q.get() + size_t{row} * config.q_values(),
                           .heads = config.heads,
                           .head_dim = config.head_dim,
                           .dims = config.rope.dims,
                           .pairing = config.rope.pairing,
                           .cos = w.rope_cos.get() + size_t{row} * half,
                           .sin = w.rope_sin.get() + size_t{row} * half};
    ctx.kernels.rope(rope);
    rope.x = k;
    rope.heads = config.kv_heads;
    ctx.kernels.rope(rope);

    const SeqSpan& seq = batch.sequences[w.sequence_of.get()[row]];
    const uint32_t position = seq.first_position + row - seq.first_token;
    ctx.kernels.store_kv({.k = k,
                          .v = w.v.get() + size_t{row} * config.kv_values(),
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
         .scale = 1.0f / std::sqrt(static_cast<float>(config.head_dim)),
         .window = 0,
         .soft_cap = 0,
         .kv = ctx.kv.layer_head(layer, kv_head),
         .block_stride = ctx.kv.block_stride(),
         // Kernels know block ids as plain numbers.
         .block_table = reinterpret_cast<const uint32_t*>(seq->blocks.data()),
         .scratch = ctx.work.attend_scratch.get() + worker * ctx.work.attend_floats});
  });
}

}  // namespace pacer::model
