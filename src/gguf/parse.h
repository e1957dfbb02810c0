// From bytes to metadata and tensor directory: the part of opening a GGUF file that needs no file.
//
// Called by File::open, by the tests and by the fuzzer. Everything returned points into `bytes`.
//
//   "GGUF" | u32 version | u64 n_tensors | u64 n_kv | kv... | tensor infos... | padding | tensor
//   data
//
// Limits are far above what real models have and far below what could hurt: open() of any file,
// however hostile, takes time and memory in proportion to the metadata that it really contains.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/file.h"

namespace pacer::gguf {

constexpr uint64_t kMetadataKeysMax = 1 << 16;       // real models: under 100
constexpr uint64_t kKeyBytesMax = 65535;             // GGUF specification
constexpr uint64_t kStringBytesMax = 16 << 20;       // the longest are chat templates, some 10 KiB
constexpr uint64_t kArrayElementsMax = 4 << 20;      // the longest are merges, some 500 thousand
constexpr uint64_t kMetadataElementsMax = 16 << 20;  // of all arrays together
constexpr uint64_t kTensorsMax = 1 << 17;      // mixtures with unmerged experts: some 10 thousand
constexpr uint64_t kTensorNameBytesMax = 256;  // GGUF specification: 64; some writers use more
constexpr uint32_t kDimensionsMax = 4;         // GGUF specification
constexpr uint32_t kAlignmentDefault = 32;     // GGUF specification
constexpr uint32_t kAlignmentMax = 64 << 10;

// Metadata value types, by their number in the file.
enum class ValueType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

struct Parsed {
  uint32_t version = 0;
  std::map<std::string_view, Value> metadata;
  std::vector<TensorInfo> tensors;  // in the order of the directory
};

Result<Parsed> parse(std::span<const std::byte> bytes);

// What a value is, for messages: "an unsigned integer", "an array of strings".
std::string_view kind_name(const Value& value);

}  // namespace pacer::gguf
