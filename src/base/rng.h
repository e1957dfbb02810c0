// Random numbers as a pure function of (seed, position).
//
// Counter-based, so a request draws the same number for its k-th token whatever ran beside it,
// however it was batched, and whether it was preempted in between. The mixing is SplitMix64
// (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014).
#pragma once

#include <cstdint>

namespace pacer {

constexpr uint64_t mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

constexpr uint64_t random_bits(uint64_t seed, uint64_t position) {
  return mix64(mix64(seed) ^ mix64(~position));
}

// Uniform in [0, 1), 53 random bits.
constexpr double random_uniform(uint64_t seed, uint64_t position) {
  return static_cast<double>(random_bits(seed, position) >> 11) * 0x1.0p-53;
}

// A stream of numbers from one seed, for tests and workloads.
class Rng {
 public:
  explicit constexpr Rng(uint64_t seed) : seed_(seed) {}
  constexpr uint64_t next() { return random_bits(seed_, position_++); }
  constexpr double uniform() { return random_uniform(seed_, position_++); }
  constexpr uint64_t below(uint64_t limit) { return next() % limit; }  // bias < limit / 2^64

 private:
  uint64_t seed_;
  uint64_t position_ = 0;
};

}  // namespace pacer
