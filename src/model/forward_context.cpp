#include "model/forward_context.h"

#include <algorithm>
#include <cmath>

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

kernels::Activations ActivationBuffer::Plane::view(uint32_t rows, uint32_t columns) const {
  return {.rows = rows,
          .columns = columns,
          .f32 = nullptr,
          .values = values.get(),
          .scales = scales.get(),
          .sums = sums.get(),
          .half_sums = half_sums.get()};
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

kernels::Activations ActivationBuffer::f32() const {
  return {.rows = rows_,
          .columns = columns_,
          .f32 = f32_.get(),
          .values = nullptr,
          .scales = nullptr,
          .sums = nullptr,
          .half_sums = nullptr};
}

kernels::Activations ActivationBuffer::q8() const {
  CHECK(wants_q8_, "int8 activations were not prepared");
  return first_.view(rows_, columns_);
}

kernels::Activations ActivationBuffer::q8_rest() const {
  CHECK(wants_rest_, "the second plane of int8 activations was not prepared");
  return second_.view(rows_, columns_);
}

Workspace::Workspace(const ModelConfig& config, BatchLimits limits,
                     const kernels::KernelTable& kernels, uint32_t workers)
    : activations(limits.tokens, std::max({config.d_model, config.q_values(), config.d_ff})),
      x(size_t{limits.tokens} * config.d_model),
      y(size_t{limits.tokens} * config.d_model),
      q(size_t{limits.tokens} * config.q_values()),
      k(size_t{limits.tokens} * config.kv_values()),
      v(size_t{limits.tokens} * config.kv_values()),
      attended(size_t{limits.tokens} * config.q_values()),
      gate(size_t{limits.tokens} * config.d_ff),
      up(size_t{limits.tokens} * config.d_ff),
      sequence_of(limits.tokens),
      rope_frequency(config.rope.dims / 2),
      rope_cos(size_t{limits.tokens} * config.rope.dims / 2),
      rope_sin(size_t{limits.tokens} * config.rope.dims / 2),
      // Whole cache lines, so that two workers never share one.
      attend_floats(round_up<size_t>(
          kernels.attend_scratch_floats(kAttendTokens, config.group(), config.head_dim), 16)),
      attend_scratch(workers * attend_floats) {
  for (uint32_t i = 0; i < config.rope.dims / 2; ++i) {
    rope_frequency.get()[i] =
        static_cast<float>(1.0 / std::pow(double{config.rope.base}, 2.0 * i / config.rope.dims));
  }
}

}  // namespace pacer::model
