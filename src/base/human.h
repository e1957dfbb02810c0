// Numbers as people read them, for messages and tables.
#pragma once

#include <cstdint>
#include <string>

namespace pacer {

// "512 B", "1.5 KiB", "12.3 GiB": one decimal, binary units.
std::string human_bytes(uint64_t bytes);

}  // namespace pacer
