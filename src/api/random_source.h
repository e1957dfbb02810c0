// Seeds and ids: unpredictable where they start, counted from there. Any thread.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>

#include "base/rng.h"

namespace pacer::api {

class RandomSource {
 public:
  RandomSource() : RandomSource(from_machine()) {}
  explicit RandomSource(uint64_t seed) : seed_(seed) {}  // tests

  uint64_t next() { return random_bits(seed_, position_.fetch_add(1, std::memory_order_relaxed)); }

  // "chatcmpl-" and 32 hex digits.
  std::string next_id(std::string_view prefix) {
    const uint64_t high = next();
    return fmt::format("{}{:016x}{:016x}", prefix, high, next());
  }

 private:
  static uint64_t from_machine() {
    std::random_device device;
    return uint64_t{device()} << 32 | device();
  }

  uint64_t seed_;
  std::atomic<uint64_t> position_{0};
};

}  // namespace pacer::api
