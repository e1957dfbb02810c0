// libFuzzer entry: any bytes either parse into something whose every part can be read, or are an
// Error.
//
// CONTRIBUTING.md says how to run it; tests/fuzz/gguf/ is what it starts from, and what ctest
// replays.
#include <cstddef>
#include <cstdint>
#include <span>

#include "gguf/parse.h"
#include "gguf/shards.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto parsed = pacer::gguf::parse(std::as_bytes(std::span(data, size)));
  if (!parsed) return 0;
  unsigned sum = 0;
  for (const auto& tensor : parsed->tensors) {
    for (std::byte b : tensor.data) sum += std::to_integer<unsigned>(b);
  }
  for (const auto& [key, value] : parsed->metadata) {
    sum += static_cast<unsigned>(key.size() + pacer::gguf::kind_name(value).size());
  }
  if (const auto split = pacer::gguf::read_split(parsed->metadata); split) {
    sum += static_cast<unsigned>(split->number + split->count);
  }
  volatile unsigned keep = sum;  // the reads above must happen
  (void)keep;
  return 0;
}
