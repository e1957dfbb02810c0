// "2GiB", "512MiB", "1048576": sizes as flags take them.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace pacer::cli {

// Units: B, KiB, MiB, GiB, TiB (1024) and KB, MB, GB, TB (1000), without regard to case; none:
// bytes. Fractions allowed.
Result<uint64_t> parse_byte_size(std::string_view text);

}  // namespace pacer::cli
