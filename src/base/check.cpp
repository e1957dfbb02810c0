#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace pacer {

void check_failed(const char* file, int line, const char* condition,
                  const std::string& message) noexcept {
  // stdio, not the logger: the logger may be what is broken.
  std::fprintf(stderr, "%s:%d: CHECK failed: %s: %s\n", file, line, condition, message.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace pacer
