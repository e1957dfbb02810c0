// The version of the program; CMake's project version is checked against it by a test of the
// command line.
#pragma once

namespace pacer {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace pacer
