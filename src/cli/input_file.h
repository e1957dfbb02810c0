// Whole inputs of commands: a file, or stdin, byte for byte.
#pragma once

#include <string>

#include "base/result.h"

namespace pacer::cli {

constexpr uint64_t kInputBytesMax = uint64_t{1} << 32;

// "-" is stdin.
Result<std::string> read_input(const std::string& path);

}  // namespace pacer::cli
