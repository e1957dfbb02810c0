// CHECK: what must hold or the program is wrong. Always on, release included; says the values and
// aborts.
//
// Never for input: a bad request or file is an Error (base/result.h).
#pragma once

#include <fmt/format.h>

#include <string>

namespace pacer {

[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& message) noexcept;

}  // namespace pacer

#define CHECK(condition, ...)                                                            \
  do {                                                                                   \
    if (!(condition)) [[unlikely]] {                                                     \
      ::pacer::check_failed(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
    }                                                                                    \
  } while (false)
