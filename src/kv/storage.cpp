#include "kv/storage.h"

#include "base/check.h"

namespace pacer::kv {

Storage::Storage(KvShape shape, uint32_t block_count, std::span<std::byte> memory)
    : shape_(shape),
      block_count_(block_count),
      values_(reinterpret_cast<uint16_t*>(memory.data())) {
  CHECK(memory.size() >= block_count * shape.block_bytes(), "{} bytes for {} KV blocks of {} bytes",
        memory.size(), block_count, shape.block_bytes());
  CHECK(reinterpret_cast<uintptr_t>(values_) % 64 == 0, "KV memory at {} is not 64-byte aligned",
        static_cast<const void*>(values_));
}

uint16_t* Storage::block(uint32_t layer, BlockId id) {
  CHECK(layer < shape_.layers && index(id) < block_count_, "layer {} of {}, block {} of {}", layer,
        shape_.layers, index(id), block_count_);
  return values_ + (size_t{layer} * block_count_ + index(id)) * shape_.layer_values();
}

const uint16_t* Storage::layer_head(uint32_t layer, uint32_t kv_head) const {
  CHECK(layer < shape_.layers && kv_head < shape_.kv_heads, "layer {} of {}, kv head {} of {}",
        layer, shape_.layers, kv_head, shape_.kv_heads);
  return values_ + size_t{layer} * block_count_ * shape_.layer_values() +
         kv_head * shape_.head_values();
}

}  // namespace pacer::kv
