// A GGUF file, v2 or v3, little endian, memory-mapped: metadata and the tensor directory. Knows no
// model.
//
// A split model (NAME-00001-of-0000N.gguf) is opened by its first file and is one File: the
// metadata of the first, the tensors of all, each mapped where it lies.
//
// Nothing in the file is trusted: every count, offset, size, alignment, type and string is checked
// before use, so open() either returns a file whose every accessor is safe, or an Error with the
// file name and the reason. Specification:
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "sys/mapped_file.h"
#include "tensor/dtype.h"

namespace pacer::gguf {

// Integers of every width are widened; arrays hold one kind. Strings point into the mapped file. A
// signed array without a negative element is held as unsigned, since most writers know only INT32.
using Value = std::variant<bool, uint64_t, int64_t, double, std::string_view, std::vector<bool>,
                           std::vector<uint64_t>, std::vector<int64_t>, std::vector<double>,
                           std::vector<std::string_view>>;

struct TensorInfo {
  std::string_view name;
  tensor::DType dtype;
  std::vector<uint64_t> shape;  // [columns (fastest), rows, ...] as in the file; 1 to 4 dimensions
  std::span<const std::byte> data;  // whole and inside the mapped file

  uint64_t columns() const { return shape[0]; }
  uint64_t rows() const { return shape.size() > 1 ? shape[1] : 1; }
};

struct SplitInfo;  // gguf/shards.h

class File {
 public:
  static Result<File> open(const std::string& path);

  const std::string& path() const { return path_; }
  uint32_t version() const { return version_; }
  uint64_t size_bytes() const;  // of all shards together
  size_t shard_count() const { return shards_.size(); }

  const std::map<std::string_view, Value>& metadata() const { return metadata_; }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  // The weights were copied elsewhere: their pages need not stay in memory. Everything stays
  // readable.
  void release_pages() const;
  const TensorInfo* find_tensor(std::string_view name) const;  // nullptr when absent

  // Typed metadata. Absent is nullopt; present with another type is an Error naming key and types.
  Result<std::optional<uint64_t>> find_uint(std::string_view key) const;
  Result<std::optional<double>> find_float(std::string_view key) const;
  Result<std::optional<bool>> find_bool(std::string_view key) const;
  Result<std::optional<std::string_view>> find_string(std::string_view key) const;
  // Absent is an Error naming the key.
  Result<uint64_t> require_uint(std::string_view key) const;
  Result<double> require_float(std::string_view key) const;
  Result<std::string_view> require_string(std::string_view key) const;
  // Arrays: nullptr when absent or of another element type.
  const std::vector<std::string_view>* find_strings(std::string_view key) const;
  const std::vector<uint64_t>* find_uints(
      std::string_view key) const;  // also from non-negative ints
  const std::vector<double>* find_floats(std::string_view key) const;

 private:
  File() = default;
  Status open_shards(const SplitInfo& split);
  Status add_tensors(const std::string& path, std::vector<TensorInfo> tensors);

  std::string path_;
  std::vector<sys::MappedFile> shards_;  // the first is the file at path_
  uint32_t version_ = 0;
  std::map<std::string_view, Value> metadata_;
  std::vector<TensorInfo> tensors_;
  std::map<std::string_view, size_t> tensor_index_;
};

}  // namespace pacer::gguf
