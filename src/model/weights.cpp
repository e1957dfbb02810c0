#include "model/weights.h"

#include <algorithm>

#include "base/math.h"
#include "gguf/cursor.h"  // shown

namespace pacer::model {

namespace {

constexpr size_t kAlignment = 64;  // a cache line, and a vector
constexpr uint32_t kPackTileRows =
    256;  // rows packed by one tile: a multiple of kernels::kRowGroup

std::string shape_text(const std::vector<uint64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace

WeightLoader::WeightLoader(const gguf::File& file, const kernels::KernelTable& kernels)
    : file_(file), kernels_(kernels) {}

Result<const gguf::TensorInfo*> WeightLoader::claim(const std::string& name,
                                                    std::vector<uint64_t> shape) {
  const gguf::TensorInfo* tensor = file_.find_tensor(name);
  if (tensor == nullptr)
    return error(Code::kBadFile, "{}: tensor '{}' is missing", file_.path(), name);
  if (tensor->shape != shape) {
    return error(Code::kBadFile, "{}: tensor '{}' has shape {}, the model's metadata says {}",
                 file_.path(), name, shape_text(tensor->shape), shape_text(shape));
  }
  claimed_.insert(tensor->name);
  return tensor;
}

size_t WeightLoader::reserve(size_t bytes) {
  const size_t offset = bytes_;
  bytes_ += round_up(bytes, kAlignment);
  return offset;
}

// Rows [row_begin, row_begin + rows) of a tensor, counted over all of its outer dimensions.
Status WeightLoader::claim_rows(const gguf::TensorInfo& tensor, uint64_t row_begin, uint32_t rows,
                                uint32_t columns, Linear* out, Precision precision) {
  ASSIGN_OR_RETURN(out->format, kernels::weight_format(tensor.dtype));
  if (columns % kernels::kQuantBlock != 0) {
    return error(Code::kUnsupported, "{}: tensor '{}' has {} columns, which is no multiple of {}",
                 file_.path(), tensor.name, columns, kernels::kQuantBlock);
  }
  out->rows = rows;
  out->columns = columns;
  out->precision = precision;
  const size_t skipped = row_begin * tensor::row_bytes(tensor.dtype, columns);
  matrices_.push_back({tensor.data.data() + skipped, out,
                       reserve(kernels_.packed_bytes(out->format, rows, columns))});
  return Ok{};
}

Status WeightLoader::claim_matrix(const std::string& name, uint32_t rows, uint32_t columns,
                                  Linear* out, Precision precision) {
  ASSIGN_OR_RETURN(const gguf::TensorInfo* tensor, claim(name, {columns, rows}));
  return claim_rows(*tensor, 0, rows, columns, out, precision);
}

Status WeightLoader::claim_fused(const std::string& name, uint32_t columns,
                                 std::initializer_list<Part> parts) {
  uint64_t rows = 0;
  for (const Part& part : parts) rows += part.rows;
  ASSIGN_OR_RETURN(const gguf::TensorInfo* tensor, claim(name, {columns, rows}));
  uint64_t begin = 0;
  for (const Part& part : parts) {
    TRY(claim_rows(*tensor, begin, part.rows, columns, part.out, part.precision));
    begin += part.rows;
  }
  return Ok{};
}

Status WeightLoader::claim_stack(const std::string& name, uint32_t rows, uint32_t columns,
                                 uint32_t count, std::vector<Linear>* out) {
  ASSIGN_OR_RETURN(const gguf::TensorInfo* tensor, claim(name, {columns, rows, count}));
  out->resize(count);
  for (uint32_t i = 0; i < count; ++i) {
    TRY(claim_rows(*tensor, uint64_t{i} * rows, rows, columns, &(*out)[i], Precision::kInt8));
  }
  return Ok{};
}

Status WeightLoader::claim_vector(const std::string& name, uint32_t size, const float** out) {
  ASSIGN_OR_RETURN(const gguf::TensorInfo* tensor, claim(name, {size}));
  vectors_.push_back({tensor, out, reserve(size * sizeof(float))});
  return Ok{};
}

Status WeightLoader::claim_vector_if_present(const std::string& name, uint32_t size,
                                             const float** out) {
  *out = nullptr;
  return has(name) ? claim_vector(name, size, out) : Status(Ok{});
}

void WeightLoader::mark_used(std::string_view name) {
  const gguf::TensorInfo* tensor = file_.find_tensor(name);
  if (tensor != nullptr) claimed_.insert(tensor->name);
}

Status WeightLoader::check_all_claimed() const {
  for (const gguf::TensorInfo& tensor : file_.tensors()) {
    if (!claimed_.contains(tensor.name)) {
      return error(Code::kUnsupported, "{}: tensor '{}' is not one that this architecture has",
                   file_.path(), gguf::shown(tensor.name));
    }
  }
  return Ok{};
}

Result<sys::HugeBuffer> WeightLoader::finish(sys::ThreadPool& pool) {
  TRY(check_all_claimed());
  ASSIGN_OR_RETURN(sys::HugeBuffer buffer, sys::HugeBuffer::allocate(bytes_, "model weights"));
  for (const VectorClaim& claim : vectors_) {
    auto* values = reinterpret_cast<float*>(buffer.data() + claim.offset);
    tensor::dequantize(claim.tensor->dtype, claim.tensor->data.data(), claim.tensor->columns(),
                       values);
    *claim.out = values;
  }
  pack_matrices(buffer.data(), pool);
  return buffer;
}

void WeightLoader::pack_matrices(std::byte* buffer, sys::ThreadPool& pool) const {
  struct Tile {
    const MatrixClaim* claim;
    uint32_t row_begin;
  };
  std::vector<Tile> tiles;
  for (const MatrixClaim& claim : matrices_) {
    claim.out->packed = buffer + claim.offset;
    for (uint32_t row = 0; row < claim.out->rows; row += kPackTileRows)
      tiles.push_back({&claim, row});
  }
  pool.parallel_for(static_cast<uint32_t>(tiles.size()), [&](uint32_t index, uint32_t) {
    const auto& [claim, row_begin] = tiles[index];
    kernels_.pack({.format = claim->out->format,
                   .source = claim->source,
                   .rows = claim->out->rows,
                   .columns = claim->out->columns,
                   .row_begin = row_begin,
                   .row_end = std::min(row_begin + kPackTileRows, claim->out->rows),
                   .packed = buffer + claim->offset});
  });
}

}  // namespace pacer::model
