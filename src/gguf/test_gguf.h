// Makes tiny GGUF files, right or wrong on purpose. For tests only, of this folder and of those
// above it.
//
//   GgufWriter writer;
//   writer.add_string("general.architecture", "llama").add_u32("llama.block_count", 2);
//   writer.add_tensor("token_embd.weight", tensor::DType::kQ8_0, {64, 100}, values);
//   const TempFile file(writer.bytes());
//   auto opened = File::open(file.path());
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/math.h"
#include "gguf/parse.h"
#include "tensor/dtype.h"
#include "tensor/reference_quant.h"

namespace pacer::gguf {

// Little-endian fields, one after the other.
class ByteSink {
 public:
  template <class T>
  ByteSink& put(T value) {
    const auto* raw = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), raw, raw + sizeof value);
    return *this;
  }
  ByteSink& put_bytes(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  ByteSink& put_string(std::string_view text) {
    put<uint64_t>(text.size());
    return put_bytes(std::as_bytes(std::span(text)));
  }
  ByteSink& pad_to(size_t multiple) {
    bytes_.resize(round_up(bytes_.size(), multiple));
    return *this;
  }

  size_t size() const { return bytes_.size(); }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

// Collects metadata and tensors; bytes() lays them out. Checks nothing, so that tests can write
// what is wrong.
class GgufWriter {
 public:
  // What the header says, where that is not the truth.
  uint32_t magic = 0x46554747;
  uint32_t version = 3;
  uint64_t extra_keys = 0;  // declared but not there
  uint64_t extra_tensors = 0;
  uint32_t alignment =
      kAlignmentDefault;  // of the layout; add_u32("general.alignment", ...) writes the key

  GgufWriter& add_u32(std::string_view key, uint32_t v) {
    return scalar(key, ValueType::kUint32, v);
  }
  GgufWriter& add_i32(std::string_view key, int32_t v) { return scalar(key, ValueType::kInt32, v); }
  GgufWriter& add_u64(std::string_view key, uint64_t v) {
    return scalar(key, ValueType::kUint64, v);
  }
  GgufWriter& add_f32(std::string_view key, float v) { return scalar(key, ValueType::kFloat32, v); }
  GgufWriter& add_bool(std::string_view key, bool v) {
    return scalar<uint8_t>(key, ValueType::kBool, v ? 1 : 0);
  }
  template <class T>
  GgufWriter& scalar(std::string_view key, ValueType type, T value) {
    start(key, type).put(value);
    return *this;
  }
  GgufWriter& add_string(std::string_view key, std::string_view text) {
    start(key, ValueType::kString).put_string(text);
    return *this;
  }

  GgufWriter& add_strings(std::string_view key, const std::vector<std::string>& texts) {
    start_array(key, ValueType::kString, texts.size());
    for (const std::string& text : texts) metadata_.put_string(text);
    return *this;
  }
  GgufWriter& add_floats(std::string_view key, const std::vector<float>& values) {
    return array(key, ValueType::kFloat32, values);
  }
  GgufWriter& add_ints(std::string_view key, const std::vector<int32_t>& values) {
    return array(key, ValueType::kInt32, values);
  }
  template <class T>
  GgufWriter& array(std::string_view key, ValueType element, const std::vector<T>& values) {
    start_array(key, element, values.size());
    for (const T& value : values) metadata_.put(value);
    return *this;
  }
  // An array of which only the header is written: `count` elements are claimed, none follow.
  GgufWriter& start_array(std::string_view key, ValueType element, uint64_t count) {
    start(key, ValueType::kArray).put(element).put<uint64_t>(count);
    return *this;
  }

  // Values are quantised as the type asks; shape is [columns, rows, ...].
  GgufWriter& add_tensor(std::string_view name, tensor::DType dtype, std::vector<uint64_t> shape,
                         const std::vector<float>& values) {
    uint64_t count = 1;
    for (uint64_t d : shape) count *= d;
    CHECK(count == values.size(), "tensor '{}': {} values for {}", name, values.size(), count);
    return add_raw_tensor(name, static_cast<uint32_t>(dtype), std::move(shape),
                          tensor::quantize(dtype, values));
  }
  GgufWriter& add_raw_tensor(std::string_view name, uint32_t type, std::vector<uint64_t> shape,
                             std::vector<std::byte> data) {
    data_.pad_to(alignment);
    const uint64_t offset = data_.size();
    data_.put_bytes(data);
    return add_entry(name, type, shape, offset);
  }
  // A directory entry alone; the data is whatever lies at the offset.
  GgufWriter& add_entry(std::string_view name, uint32_t type, const std::vector<uint64_t>& shape,
                        uint64_t offset) {
    directory_.put_string(name).put(static_cast<uint32_t>(shape.size()));
    for (uint64_t d : shape) directory_.put(d);
    directory_.put(type).put(offset);
    ++tensors_;
    return *this;
  }

  std::vector<std::byte> bytes() const {
    ByteSink out;
    out.put(magic).put(version).put(tensors_ + extra_tensors).put(keys_ + extra_keys);
    out.put_bytes(metadata_.bytes()).put_bytes(directory_.bytes());
    if (tensors_ > 0) out.pad_to(alignment);
    out.put_bytes(data_.bytes());
    return out.bytes();
  }

 private:
  ByteSink& start(std::string_view key, ValueType type) {
    ++keys_;
    return metadata_.put_string(key).put(type);
  }

  ByteSink metadata_, directory_, data_;
  uint64_t keys_ = 0;
  uint64_t tensors_ = 0;
};

// A file with these bytes, gone at the end of the scope.
class TempFile {
 public:
  explicit TempFile(std::span<const std::byte> bytes) {
    std::random_device random;
    const std::string name = "pacer_test_" + std::to_string(random()) + std::to_string(random());
    path_ = (std::filesystem::temp_directory_path() / name).string();
    std::ofstream out(path_, std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
    CHECK(out.good(), "cannot write {}", path_);
  }
  ~TempFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace pacer::gguf
