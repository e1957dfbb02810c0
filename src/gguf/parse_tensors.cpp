// Names, shapes, types and places of tensors.
//
// Two passes: the directory must be read to its end before the start of the data is known. Tensors
// that overlap are refused: no writer makes them, and a small file whose many entries share one
// place would grow without bound when each is repacked.
#include "gguf/parse_tensors.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "base/math.h"

namespace pacer::gguf {
namespace {

struct Entry {
  TensorInfo info;
  uint64_t offset = 0;  // from the start of the data section
  uint64_t bytes = 0;
};

Result<uint64_t> checked_product(uint64_t a, uint64_t b, std::string_view what) {
  if (b != 0 && a > std::numeric_limits<uint64_t>::max() / b) {
    return error(Code::kBadFile, "the size of {} overflows 64 bits", what);
  }
  return a * b;
}

std::string supported_types() {
  std::string names;
  for (uint32_t type = 0; type < 64; ++type) {
    const auto info = tensor::dtype_info(static_cast<tensor::DType>(type));
    if (!info) continue;
    if (!names.empty()) names += ", ";
    names += info->name;
  }
  return names;
}

Result<std::vector<uint64_t>> read_shape(Cursor& cursor, std::string_view what) {
  ASSIGN_OR_RETURN(const uint32_t n_dims, cursor.read<uint32_t>(what));
  if (n_dims == 0 || n_dims > kDimensionsMax) {
    return error(Code::kBadFile, "{} has {} dimensions; it must have 1 to {}", what, n_dims,
                 kDimensionsMax);
  }
  std::vector<uint64_t> shape(n_dims);
  for (uint32_t i = 0; i < n_dims; ++i) {
    ASSIGN_OR_RETURN(shape[i], cursor.read<uint64_t>(what));
    if (shape[i] == 0) return error(Code::kBadFile, "dimension {} of {} is 0", i, what);
  }
  return shape;
}

// "type IQ2_XXS", "type 255".
std::string shown_type(uint32_t number) {
  const std::string name = tensor::ggml_type_name(number);
  return name.starts_with("type ") ? name : "type " + name;
}

Result<tensor::DType> read_dtype(Cursor& cursor, std::string_view what) {
  ASSIGN_OR_RETURN(const uint32_t number, cursor.read<uint32_t>(what));
  const auto dtype = static_cast<tensor::DType>(number);
  if (!tensor::dtype_info(dtype)) {
    return error(Code::kUnsupported, "{} is of {}, which is not supported; supported are {}", what,
                 shown_type(number), supported_types());
  }
  return dtype;
}

// Bytes of the whole tensor. Rows are whole blocks, so a row never shares a block with the next.
Result<uint64_t> tensor_bytes(const TensorInfo& info, std::string_view what) {
  const tensor::DTypeInfo format = *tensor::dtype_info(info.dtype);
  if (info.columns() % format.block_values != 0) {
    return error(Code::kBadFile, "{} has {} columns, which is not a multiple of the {} block of {}",
                 what, info.columns(), format.name, format.block_values);
  }
  uint64_t blocks = info.columns() / format.block_values;
  for (size_t i = 1; i < info.shape.size(); ++i) {
    ASSIGN_OR_RETURN(blocks, checked_product(blocks, info.shape[i], what));
  }
  // The number of values must fit too: callers multiply the shape.
  TRY(checked_product(blocks, format.block_values, what));
  return checked_product(blocks, format.block_bytes, what);
}

Result<Entry> read_entry(Cursor& cursor, uint64_t index, uint32_t alignment) {
  Entry entry;
  ASSIGN_OR_RETURN(
      entry.info.name,
      cursor.read_string(kTensorNameBytesMax, fmt::format("the name of tensor {}", index)));
  if (entry.info.name.empty()) return error(Code::kBadFile, "tensor {} has an empty name", index);

  const std::string what = fmt::format("tensor '{}'", shown(entry.info.name));
  ASSIGN_OR_RETURN(entry.info.shape, read_shape(cursor, what));
  ASSIGN_OR_RETURN(entry.info.dtype, read_dtype(cursor, what));
  ASSIGN_OR_RETURN(entry.offset, cursor.read<uint64_t>(what));
  if (entry.offset % alignment != 0) {
    return error(Code::kBadFile,
                 "{} starts at offset {}, which is not a multiple of the alignment {}", what,
                 entry.offset, alignment);
  }
  ASSIGN_OR_RETURN(entry.bytes, tensor_bytes(entry.info, what));
  return entry;
}

Status check_names_differ(const std::vector<Entry>& entries) {
  std::set<std::string_view> names;
  for (const Entry& entry : entries) {
    if (!names.insert(entry.info.name).second) {
      return error(Code::kBadFile, "tensor '{}' appears twice", shown(entry.info.name));
    }
  }
  return Ok{};
}

Status check_places_differ(const std::vector<Entry>& entries) {
  std::vector<const Entry*> by_offset;
  for (const Entry& entry : entries) by_offset.push_back(&entry);
  std::sort(by_offset.begin(), by_offset.end(),
            [](const Entry* a, const Entry* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < by_offset.size(); ++i) {
    const Entry& before = *by_offset[i - 1];
    const Entry& after = *by_offset[i];
    if (after.offset - before.offset < before.bytes) {  // no sum: nothing to overflow
      return error(Code::kBadFile, "tensors '{}' and '{}' overlap at offset {}",
                   shown(before.info.name), shown(after.info.name), after.offset);
    }
  }
  return Ok{};
}

Status find_data(Entry& entry, std::span<const std::byte> bytes, uint64_t data_start) {
  const uint64_t data_size = bytes.size() > data_start ? bytes.size() - data_start : 0;
  if (entry.offset > data_size || entry.bytes > data_size - entry.offset) {
    return error(
        Code::kBadFile,
        "tensor '{}' needs {} bytes at offset {} of the data, which has only {}; is the file "
        "cut short?",
        shown(entry.info.name), entry.bytes, entry.offset, data_size);
  }
  entry.info.data = bytes.subspan(data_start + entry.offset, entry.bytes);
  return Ok{};
}

}  // namespace

Result<std::vector<TensorInfo>> parse_tensors(Cursor& cursor, uint64_t n_tensors,
                                              uint32_t alignment,
                                              std::span<const std::byte> bytes) {
  if (n_tensors > kTensorsMax) {
    return error(Code::kBadFile, "the header declares {} tensors; the limit is {}", n_tensors,
                 kTensorsMax);
  }
  std::vector<Entry> entries;  // not reserved: the count is only what the file claims
  for (uint64_t i = 0; i < n_tensors; ++i) {
    ASSIGN_OR_RETURN(Entry entry, read_entry(cursor, i, alignment));
    entries.push_back(std::move(entry));
  }

  const uint64_t data_start = round_up<uint64_t>(cursor.position(), alignment);
  for (Entry& entry : entries) TRY(find_data(entry, bytes, data_start));
  TRY(check_names_differ(entries));
  TRY(check_places_differ(entries));

  std::vector<TensorInfo> tensors;
  tensors.reserve(entries.size());
  for (Entry& entry : entries) tensors.push_back(std::move(entry.info));
  return tensors;
}

}  // namespace pacer::gguf
