// A mixture of experts: a router picks a few MLPs for each token, and their answers are added up
// with its weights.
//
// Tokens are sorted by expert, so that each expert's matrices are read once for all of its tokens.
// The result of a token does not depend on the others: its experts are added in the order in which
// the router ranks them. Source: Shazeer et al., 2017; Jiang et al., "Mixtral of Experts", 2024
// (softmax over the chosen experts; Qwen3's softmax over all, divided by the sum of the chosen,
// is the same number).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/forward_context.h"
#include "model/weights.h"

namespace pacer::model {

struct Mixture {
  Linear router;                 // [experts][d_model]
  std::vector<Linear> gate, up;  // [experts] of [d_ff_expert][d_model]
  std::vector<Linear> down;      // [experts] of [d_model][d_ff_expert]
};

Status bind_mixture(const ModelConfig& config, WeightLoader& loader, const std::string& prefix,
                    Mixture& mixture);

// y = mixture(activations), which were made for the router.
void run_mixture(ForwardContext& ctx, uint32_t rows, const Mixture& mixture);

}  // namespace pacer::model
