// What a forward pass works with: kernels, workers, the KV cache and scratch. Passed down, never
// global.
//
// All buffers are allocated once, for the largest batch that the scheduler may plan.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "kernels/kernel_table.h"
#include "kv/storage.h"
#include "model/config.h"
#include "model/weights.h"
#include "sys/thread_pool.h"

namespace pacer::model {

struct BatchLimits {
  uint32_t tokens = 0;      // of one forward pass
  uint32_t logit_rows = 0;  // of those, rows that need logits
};

// Uninitialised memory on a cache-line boundary.
template <class T>
class Scratch {
 public:
  explicit Scratch(size_t count)
      : data_(static_cast<T*>(::operator new (count * sizeof(T), std::align_val_t{kAlignment}))) {}
  T* get() { return data_.get(); }
  const T* get() const { return data_.get(); }

 private:
  static constexpr size_t kAlignment = 64;
  struct Free {
    void operator()(T* p) const { ::operator delete (p, std::align_val_t{kAlignment}); }
  };
  std::unique_ptr<T, Free> data_;
};

// Activations of a batch on their way into matrices: f32, and int8 blocks if one of the matrices
// wants those; a second plane of int8 blocks for what the first left, if one wants
// Precision::kInt16.
class ActivationBuffer {
 public:
  ActivationBuffer(uint32_t rows_max, uint32_t columns_max);

  // Starts a new content of this shape for these consumers, all with `columns` columns.
  void reset(const kernels::KernelTable& kernels, uint32_t rows, uint32_t columns,
             std::span<const Linear* const> consumers);
  float* f32_row(uint32_t row) { return f32_.get() + size_t{row} * columns_; }
  // f32_row(row) is written: makes the int8 forms of it that consumers want.
  void finish_row(const kernels::KernelTable& kernels, uint32_t row);

  // Rows [first, first + rows) of the content.
  kernels::Activations f32(uint32_t first, uint32_t rows) const;
  kernels::Activations q8(uint32_t first, uint32_t rows) const;       // the first plane
  kernels::Activations q8_rest(uint32_t first, uint32_t rows) const;  // the second: x - first plane

 private:
  void check_rows(uint32_t first, uint32_t rows) const;

  struct Plane {
    explicit Plane(size_t values_count);
    void quantise_row(const kernels::KernelTable& kernels, const float* x, uint32_t row,
                      uint32_t columns);
    kernels::Activations view(uint32_t first, uint32_t rows, uint32_t columns) const;

    Scratch<int8_t> values;    // [rows][columns]
    Scratch<float> scales;     // [rows][columns / 32]
    Scratch<float> sums;       // [rows][columns / 32]
    Scratch<float> half_sums;  // [rows][columns / 16]
  };

  uint32_t rows_max_, columns_max_;
  uint32_t rows_ = 0, columns_ = 0;
  bool wants_q8_ = false;
  bool wants_rest_ = false;
  Scratch<float> f32_;   // [rows][columns]
  Scratch<float> rest_;  // [rows][columns]: x minus what the first plane holds of it
  Plane first_, second_;
};

// out [rows][matrix.rows] = rows [first_row, first_row + rows) of the activations * matrix^T
struct Product {
  const Linear* matrix;
  float* out;
  uint32_t first_row = 0;  // multiply() takes all rows
  uint32_t rows = 0;
};

// What a mixture of experts needs beside; S = tokens * experts_used slots.
struct MixtureWork {
  MixtureWork(const ModelConfig& config, uint32_t tokens);

  ActivationBuffer activations;   // [S][d_model], then [S][d_ff_expert]
  Scratch<float> router;          // [T][experts]: logits
  Scratch<uint32_t> chosen;       // [T][experts_used]: experts, best first
  Scratch<float> weights;         // [T][experts_used]
  Scratch<uint32_t> slot;         // [T][experts_used]
  Scratch<uint32_t> first;        // [experts + 1]: first slot of each expert
  Scratch<uint32_t> next;         // [experts]
  Scratch<float> answers;         // [S][d_model]
  std::vector<Product> products;  // room for two of each expert
};

// Where layers put what they compute; T = limits.tokens.
struct Workspace {
  Workspace(const ModelConfig& config, BatchLimits limits, const kernels::KernelTable& kernels,
            uint32_t workers);

  // One attention tile takes at most this many query tokens, so that a long prompt splits into many
  // tiles.
  static constexpr uint32_t kAttendTokens = 16;

  ActivationBuffer activations;
  Scratch<float> x;                      // [T][d_model]: the residual stream
  Scratch<float> y;                      // [T][d_model]: what a block adds to it
  Scratch<float> q;                      // [T][q_values]
  Scratch<float> k;                      // [T][kv_values]
  Scratch<float> v;                      // [T][kv_values]
  Scratch<float> attended;               // [T][q_values]
  Scratch<float> gate;                   // [T][d_ff], or [T * experts_used][d_ff_expert]
  Scratch<float> up;                     // the same
  Scratch<uint32_t> sequence_of;         // [T]: index into batch.sequences
  Scratch<float> rope_cos;               // [ropes][T][dims / 2]: see rope_at
  Scratch<float> rope_sin;               // the same
  size_t attend_floats;                  // of one worker
  Scratch<float> attend_scratch;         // [workers][attend_floats]
  std::unique_ptr<MixtureWork> mixture;  // null without experts
  size_t rope_stride;                    // floats of rope_cos from one set to the next

  // Where the angles of a row of one set are: [dims / 2].
  size_t rope_at(uint32_t set, uint32_t row, uint32_t dims) const {
    return set * rope_stride + size_t{row} * (dims / 2);
  }
};

struct ForwardContext {
  const kernels::KernelTable& kernels;
  sys::ThreadPool& pool;
  kv::Storage& kv;
  const ModelConfig& config;
  Workspace& work;
};

}  // namespace pacer::model
