// The tensor directory of a GGUF file. Internal to this folder: see parse.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "gguf/cursor.h"
#include "gguf/parse.h"

namespace pacer::gguf {

// Reads `n_tensors` entries from `cursor`, which stands after the metadata; the data of each is
// found in `bytes`, the whole file.
Result<std::vector<TensorInfo>> parse_tensors(Cursor& cursor, uint64_t n_tensors,
                                              uint32_t alignment, std::span<const std::byte> bytes);

}  // namespace pacer::gguf
