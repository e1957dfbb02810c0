// One forward pass: the tokens of several sequences back to back, and which of them need logits.
#pragma once

#include <cstdint>
#include <span>

#include "base/token.h"
#include "kv/block_manager.h"

namespace pacer::model {

// A run of consecutive tokens of one sequence within the batch.
struct SeqSpan {
  uint32_t first_token;  // index into ForwardBatch::tokens
  uint32_t token_count;
  uint32_t
      first_position;  // of that first token in its sequence; all before it are in the KV cache
  std::span<const kv::BlockId> blocks;  // enough for first_position + token_count tokens
};

struct ForwardBatch {
  std::span<const TokenId> tokens;       // [token_count]
  std::span<const SeqSpan> sequences;    // cover all tokens, in order
  std::span<const uint32_t> logit_rows;  // indices into tokens: logits are computed for these

  uint32_t token_count() const { return static_cast<uint32_t>(tokens.size()); }
};

}  // namespace pacer::model
