// For tests only: the seed of randomised tests. A new one each run, so that CI goes on exploring;
// print it on failure (SCOPED_TRACE), and PACER_TEST_SEED=<seed> replays it.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>

namespace pacer {

inline uint64_t test_seed() {
  if (const char* fixed = std::getenv("PACER_TEST_SEED")) return std::strtoull(fixed, nullptr, 10);
  return std::random_device{}();
}

}  // namespace pacer
