// Where the keys and values of a block are: shape arithmetic over memory that the caller owns.
//
// Layer-major: all blocks of layer 0, then of layer 1, ... so that one layer's attention walks one
// region. Within a block, each kv head has K transposed [head_dim][16 tokens] and V [16
// tokens][head_dim], f16 (kernels/args.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kv/block_manager.h"

namespace pacer::kv {

struct KvShape {
  uint32_t layers = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;

  size_t head_values() const {
    return size_t{2} * kBlockTokens * head_dim;
  }                                                                 // K and V of one kv head
  size_t layer_values() const { return kv_heads * head_values(); }  // one block in one layer
  size_t block_bytes() const { return layers * layer_values() * sizeof(uint16_t); }
};

class Storage {
 public:
  // memory: at least block_count * shape.block_bytes(), 64-byte aligned, outlives this.
  Storage(KvShape shape, uint32_t block_count, std::span<std::byte> memory);

  const KvShape& shape() const { return shape_; }
  uint32_t block_count() const { return block_count_; }

  uint16_t* block(uint32_t layer, BlockId id);  // [kv_heads][2 * 16 * head_dim]
  const uint16_t* layer_head(uint32_t layer,
                             uint32_t kv_head) const;  // block 0; next block: block_stride() on
  size_t block_stride() const { return shape_.layer_values(); }

 private:
  KvShape shape_;
  uint32_t block_count_;
  uint16_t* values_;
};

}  // namespace pacer::kv
