// The decoder-only transformer that all our architectures are: the forward pass is written here
// once, and an architecture says which parts its layers have and under which names.
//
//   x = embedding * scale
//   each layer:  h = norm(x)          (or x itself)
//                a = attention(h)     q, k: bias, norm, rotary positions; window, soft cap
//                x += norm(a)         (or a itself)
//                h = norm(x);  m = mlp(h) or mixture(h);  x += norm(m)
//   logits = head * norm(x), soft cap
//
// Null pointers are parts that an architecture does not have.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/config.h"
#include "model/layers.h"
#include "model/mixture.h"
#include "model/registry.h"
#include "model/weights.h"

namespace pacer::model {

struct Mlp {
  Linear gate, up;  // [d_ff][d_model]
  Linear down;      // [d_model][d_ff]
};

struct DecoderLayer {
  const float* attention_norm = nullptr;  // [d_model]
  Attention attention;
  const float* attention_post_norm = nullptr;  // [d_model]
  const float* mlp_norm = nullptr;             // [d_model]
  Mlp mlp;                                     // unless there is a mixture
  Mixture mixture;
  const float* mlp_post_norm = nullptr;  // [d_model]
};

// Claims the tensors of one layer; `prefix` is "blk.N.".
using BindLayer = Status (*)(const ModelConfig& config, WeightLoader& loader,
                             const std::string& prefix, DecoderLayer& layer);

Result<std::unique_ptr<Network>> bind_decoder(const ModelConfig& config, WeightLoader& loader,
                                              BindLayer bind_layer);

// Parts that most architectures name alike.
Status bind_norm(const ModelConfig& config, WeightLoader& loader, const std::string& name,
                 const float** norm);
// attn_q, attn_k, attn_v, attn_output (with .bias where the file has them); attn_q_norm,
// attn_k_norm as config.qk_norm says.
Status bind_attention(const ModelConfig& config, WeightLoader& loader, const std::string& prefix,
                      Attention& attention);
// ffn_gate, ffn_up, ffn_down; or, where the config has experts, ffn_gate_inp and ffn_*_exps.
Status bind_mlp(const ModelConfig& config, WeightLoader& loader, const std::string& prefix,
                DecoderLayer& layer);

// The layer of llama and its kin: attn_norm, attention, ffn_norm, MLP.
Status bind_pre_norm_layer(const ModelConfig& config, WeightLoader& loader,
                           const std::string& prefix, DecoderLayer& layer);

}  // namespace pacer::model
