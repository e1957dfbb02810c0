#include "model/forward_context.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/math.h"

namespace pacer::model {

ActivationBuffer::ActivationBuffer(uint32_t rows_max, uint32_t columns_max)
    : rows_max_(rows_max),
      columns_max_(columns_max),
      f32_(size_t{rows_max} * columns_max),
      values_(size_t{rows_max} * columns_max),
      scales_(size_t{rows_max} * div_ceil(columns_max, kernels::kQuantBlock)),
      sums_(size_t{rows_max} * div_ceil(columns_max, kernels::kQuantBlock)) {}

void ActivationBuffer::reset(const kernels::KernelTable& kernels, uint32_t rows, uint32_t columns,
                             std::span<const Linear* const> consumers) {
  CHECK(rows <= rows_max_ && columns <= columns_max_, "{} x {} activations in a buffer of {} x {}",
        rows, columns, rows_max_, columns_max_);
  rows_ = rows;
  columns_ = columns;
  wants_q8_ = false;
  for (const Linear* consumer : consumers) {
    CHECK(consumer->columns == columns, "{} activations for a matrix of {} columns", columns,
          consumer->columns);
    if (kernels.activation_kind[static_cast<size_t>(consumer->format)] ==
        kernels::ActivationKind::kQ8) {
      wants_q8_ = true;
    }
  }
}

void ActivationBuffer::finish_row(const kernels::KernelTable& kernels, uint32_t row) {
  if (!wants_q8_) return;
  const size_t block = size_t{row} * (columns_ / kernels::kQuantBlock);
  kernels.quantize_q8(f32_row(row), columns_, values_.get() + size_t{row} * columns_,
                      scales_.get() + block, sums_.get() + block);
}

kernels::Activations ActivationBuffer::view(kernels::ActivationKind kind) const {
  kernels::Activations view{.rows = rows_,
                            .columns = columns_,
                            .f32 = nullptr,
                            .values = nullptr,
                            .scales = nullptr,
                            .sums = nullptr};
  if (kind == kernels::ActivationKind::kF32) {
    view.f32 = f32_.get();
  } else {
    CHECK(wants_q8_, "int8 activations were not prepared");
    view.values = values_.get();
    view.scales = scales_.get();
    view.sums = sums_.get();
  }
  return view;
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
