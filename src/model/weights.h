// Weights: tensors of a GGUF repacked once into the layout of the chosen kernel tier.
//
// An architecture claims its tensors by name and shape through a WeightLoader; finish() then packs
// them all, in parallel, into one buffer on huge pages. A tensor that is missing, has another shape
// or that nobody claimed is an Error: a file that is not fully understood must not give wrong
// numbers.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/file.h"
#include "kernels/kernel_table.h"
#include "sys/memory.h"
#include "sys/thread_pool.h"

namespace pacer::model {

// How finely activations are rounded where a tier multiplies in integers.
enum class Precision : uint8_t {
  kInt8,   // one int8 plane
  kInt16,  // two: the second holds what the first left; twice the multiplications
};

// y = W x, with W [rows][columns] in the tier's layout.
struct Linear {
  kernels::WeightFormat format{};
  uint32_t rows = 0;
  uint32_t columns = 0;
  const std::byte* packed = nullptr;
  Precision precision = Precision::kInt8;
};

class WeightLoader {
 public:
  WeightLoader(const gguf::File& file, const kernels::KernelTable& kernels);

  bool has(std::string_view name) const { return file_.find_tensor(name) != nullptr; }

  // Outputs are complete once finish() has run, and must not move until then.
  Status claim_matrix(const std::string& name, uint32_t rows, uint32_t columns, Linear* out,
                      Precision precision = Precision::kInt8);
  // One tensor whose rows are several matrices, one after the other (fused projections).
  struct Part {
    uint32_t rows;
    Linear* out;
    Precision precision = Precision::kInt8;
  };
  Status claim_fused(const std::string& name, uint32_t columns, std::initializer_list<Part> parts);
  // One tensor [columns, rows, count] of as many matrices (experts).
  Status claim_stack(const std::string& name, uint32_t rows, uint32_t columns, uint32_t count,
                     std::vector<Linear>* out);
  Status claim_vector(const std::string& name, uint32_t size, const float** out);
  // Null where the file has no such tensor.
  Status claim_vector_if_present(const std::string& name, uint32_t size, const float** out);
  // A tensor that read_config has used already (rope factors).
  void mark_used(std::string_view name);

  Status check_all_claimed() const;
  // Packs everything claimed. The buffer must outlive what was claimed.
  Result<sys::HugeBuffer> finish(sys::ThreadPool& pool);

 private:
  struct MatrixClaim {
    const std::byte* source;  // GGUF rows
    Linear* out;
    size_t offset;  // in the buffer
  };
  struct VectorClaim {
    const gguf::TensorInfo* tensor;
    const float** out;
    size_t offset;
  };

  Result<const gguf::TensorInfo*> claim(const std::string& name, std::vector<uint64_t> shape);
  Status claim_rows(const gguf::TensorInfo& tensor, uint64_t row_begin, uint32_t rows,
                    uint32_t columns, Linear* out, Precision precision);
  size_t reserve(size_t bytes);
  void pack_matrices(std::byte* buffer, sys::ThreadPool& pool) const;

  const gguf::File& file_;
  const kernels::KernelTable& kernels_;
  std::set<std::string_view> claimed_;
  std::vector<MatrixClaim> matrices_;
  std::vector<VectorClaim> vectors_;
  size_t bytes_ = 0;
};

}  // namespace pacer::model
