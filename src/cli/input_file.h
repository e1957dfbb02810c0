// Whole inputs of commands: a file, or stdin, byte for byte.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace pacer::cli {

// Positions in a text are 32 bits wide in the tokenizers, and a space may become three bytes there.
constexpr uint64_t kInputBytesMax = uint64_t{1} << 30;
static_assert(3 * kInputBytesMax <= UINT32_MAX);

// "-" is stdin. What has more than `bytes_max` bytes is refused.
Result<std::string> read_input(const std::string& path, uint64_t bytes_max = kInputBytesMax);

}  // namespace pacer::cli
