// Frequencies of rotary positions and the ways to stretch them beyond the trained context.
//
//   none      frequency i = base ^ (-2i / dims)                       Su et al., "RoFormer", 2021
//   linear    all divided by a factor                                 Chen et al., 2023
//   yarn      low frequencies divided, high ones kept, a ramp between Peng et al., "YaRN", 2023
//   factors   each divided by its own number: Llama 3's bands come so (tensor rope_freqs.weight),
//             and LongRoPE's short and long lists (rope_factors_short/_long.weight; Ding et al.,
//             2024)
//
// Keys as the GGUF specification has them: <architecture>.rope.*.
#pragma once

#include <string>

#include "base/result.h"
#include "gguf/file.h"
#include "model/config.h"

namespace pacer::model {

struct RopeRequest {
  std::string prefix;  // "llama."
  uint32_t head_dim = 0;
  kernels::RopePairing pairing = kernels::RopePairing::kAdjacent;
  float base_default = 10000.0f;  // where the file does not say
  uint32_t trained_context = 0;
  uint32_t served_context = 0;  // LongRoPE: beyond the original context the long list counts
};

// The rotary positions that the file asks for; a scaling that is not implemented is refused by
// name.
Result<RopeConfig> read_rope(const gguf::File& file, const RopeRequest& request);

// Unscaled frequencies of another base, for layers that have their own.
RopeConfig plain_rope(uint32_t dims, kernels::RopePairing pairing, float base);

}  // namespace pacer::model
