#include "model/forward_context.h"

#include <algorithm>

#include "base/check.h"
#include "base/math.h"

namespace pacer::model {

ActivationBuffer::Plane::Plane(size_t values_count)
    : values(values_count),
      scales(values_count / kernels::kQuantBlock + 1),
      sums(values_count / kernels::kQuantBlock + 1),
      half_sums(2 * (values_count / kernels::kQuantBlock + 1)) {}

void ActivationBuffer::Plane::quantise_row(const kernels::KernelTable& kernels, const float* x,
                                           uint32_t row, uint32_t columns) {
  const size_t block = size_t{row} * (columns / kernels::kQuantBlock);
  kernels.quantize_q8(x, columns,
                      {.values = values.get() + size_t{row} * columns,
                       .scales = scales.get() + block,
                       .sums = sums.get() + block,
                       .half_sums = half_sums.get() + 2 * block});
}

kernels::Activations ActivationBuffer::Plane::view(uint32_t first, uint32_t rows,
                                                   uint32_t columns) const {
  const size_t block = size_t{first} * (columns / kernels::kQuantBlock);
  return {.rows = rows,
          .columns = columns,
          .f32 = nullptr,
          .values = values.get() + size_t{first} * columns,
          .scales = scales.get() + block,
          .sums = sums.get() + block,
          .half_sums = half_sums.get() + 2 * block};
}

ActivationBuffer::ActivationBuffer(uint32_t rows_max, uint32_t columns_max)
    : rows_max_(rows_max),
      columns_max_(columns_max),
      f32_(size_t{rows_max} * columns_max),
      rest_(size_t{rows_max} * columns_max),
      first_(size_t{rows_max} * columns_max),
      second_(size_t{rows_max} * columns_max) {}

void ActivationBuffer::reset(const kernels::KernelTable& kernels, uint32_t rows, uint32_t columns,
                             std::span<const Linear* const> consumers) {
  CHECK(rows <= rows_max_ && columns <= columns_max_, "{} x {} activations in a buffer of {} x {}",
        rows, columns, rows_max_, columns_max_);
  rows_ = rows;
  columns_ = columns;
  wants_q8_ = wants_rest_ = false;
  for (const Linear* consumer : consumers) {
    CHECK(consumer->columns == columns, "{} activations for a matrix of {} columns", columns,
          consumer->columns);
    const bool q8 = kernels.activation_kind[static_cast<size_t>(consumer->format)] ==
                    kernels::ActivationKind::kQ8;
    wants_q8_ |= q8;
    wants_rest_ |= q8 && consumer->precision == Precision::kInt16;
  }
}

void ActivationBuffer::finish_row(const kernels::KernelTable& kernels, uint32_t row) {
  if (!wants_q8_) return;
  const float* x = f32_row(row);
  first_.quantise_row(kernels, x, row, columns_);
  if (!wants_rest_) return;

  const int8_t* values = first_.values.get() + size_t{row} * columns_;
  const float* scales = first_.scales.get() + size_t{row} * (columns_ / kernels::kQuantBlock);
  float* rest = rest_.get() + size_t{row} * columns_;
  for (uint32_t i = 0; i < columns_; ++i) {
    rest[i] = x[i] - scales[i / kernels::kQuantBlock] * static_cast<float>(values[i]);
  }
  second_.quantise_row(kernels, rest, row, columns_);
}

kernels::Activations ActivationBuffer::f32(uint32_t first, uint32_t rows) const {
  check_rows(first, rows);
  return {.rows = rows,
          .columns = columns_,
          .f32 = f32_.get() + size_t{first} * columns_,
          .values = nullptr,
          .scales = nullptr,
          .sums = nullptr,
          .half_sums = nullptr};
}

kernels::Activations ActivationBuffer::q8(uint32_t first, uint32_t rows) const {
  CHECK(wants_q8_, "int8 activations were not prepared");
  check_rows(first, rows);
  return first_.view(first, rows, columns_);
}

kernels::Activations ActivationBuffer::q8_rest(uint32_t first, uint32_t rows) const {
  CHECK(wants_rest_, "the second plane of int8 activations was not prepared");
  check_rows(first, rows);
  return second_.view(first, rows, columns_);
}

void ActivationBuffer::check_rows(uint32_t first, uint32_t rows) const {
  CHECK(first + rows <= rows_, "rows {} + {} of {} activations", first, rows, rows_);
}

MixtureWork::MixtureWork(const ModelConfig& config, uint32_t tokens)
    : activations(tokens * config.experts_used, std::max(config.d_model, config.d_ff_expert)),
      router(size_t{tokens} * config.experts),
      chosen(size_t{tokens} * config.experts_used),
      weights(size_t{tokens} * config.experts_used),
      slot(size_t{tokens} * config.experts_used),
      first(config.experts + 1),
      next(config.experts),
      answers(size_t{tokens} * config.experts_used * config.d_model) {
  products.reserve(2 * size_t{config.experts});
}

namespace {

// Values of gate, and of up, for one token.
size_t gate_values(const ModelConfig& config) {
  return std::max(size_t{config.d_ff}, size_t{config.experts_used} * config.d_ff_expert);
}

uint32_t rope_pairs_max(const ModelConfig& config) {
  uint32_t dims = 0;
  for (const RopeConfig& rope : config.ropes) dims = std::max(dims, rope.dims);
  return dims / 2;
}

}  // namespace

Workspace::Workspace(const ModelConfig& config, BatchLimits limits,
                     const kernels::KernelTable& kernels, uint32_t workers)
    : activations(limits.tokens, std::max({config.d_model, config.q_values(), config.d_ff})),
      x(size_t{limits.tokens} * config.d_model),
      y(size_t{limits.tokens} * config.d_model),
      q(size_t{limits.tokens} * config.q_values()),
      k(size_t{limits.tokens} * config.kv_values()),
      v(size_t{limits.tokens} * config.kv_values()),
      attended(size_t{limits.tokens} * config.q_values()),
      gate(limits.tokens * gate_values(config)),
      up(limits.tokens * gate_values(config)),
      sequence_of(limits.tokens),
      rope_cos(config.ropes.size() * limits.tokens * rope_pairs_max(config)),
      rope_sin(config.ropes.size() * limits.tokens * rope_pairs_max(config)),
      // Whole cache lines, so that two workers never share one.
      attend_floats(round_up<size_t>(
          kernels.attend_scratch_floats(kAttendTokens, config.group(), config.head_dim), 16)),
      attend_scratch(workers * attend_floats),
      mixture(config.experts > 0 ? std::make_unique<MixtureWork>(config, limits.tokens) : nullptr),
      rope_stride(size_t{limits.tokens} * rope_pairs_max(config)) {}

}  // namespace pacer::model
