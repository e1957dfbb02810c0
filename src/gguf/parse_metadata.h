// The key-value section of a GGUF file. Internal to this folder: see parse.h.
#pragma once

#include <map>
#include <string_view>

#include "base/result.h"
#include "gguf/cursor.h"
#include "gguf/parse.h"

namespace pacer::gguf {

struct Metadata {
  std::map<std::string_view, Value> values;
  uint32_t alignment = kAlignmentDefault;  // of tensor data: general.alignment
};

// Reads `n_keys` keys from `cursor`, which stands after the header.
Result<Metadata> parse_metadata(Cursor& cursor, uint64_t n_keys);

}  // namespace pacer::gguf
