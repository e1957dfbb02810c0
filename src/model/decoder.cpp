#include "model/decoder.h"

#include <utility>

#include "model/rope.h"

namespace pacer::model {

namespace {

class Decoder final : public Network {
 public:
  Status bind(const ModelConfig& config, WeightLoader& loader, BindLayer bind_layer) {
    TRY(loader.claim_matrix("token_embd.weight", config.vocabulary, config.d_model, &embedding_));
    TRY(bind_norm(config, loader, "output_norm.weight", &output_norm_));
    tied_ = !loader.has("output.weight");
    if (!tied_)
      TRY(loader.claim_matrix("output.weight", config.vocabulary, config.d_model, &output_));
    for (const RopeConfig& rope : config.ropes) {
      for (const std::string& name : rope.tensors) loader.mark_used(name);
    }
    layers_.resize(config.layers);
    for (uint32_t i = 0; i < config.layers; ++i) {
      TRY(bind_layer(config, loader, fmt::format("blk.{}.", i), layers_[i]));
    }
    return Ok{};
  }

  void forward(ForwardContext& ctx, const ForwardBatch& batch, float* logits) const override {
    Workspace& w = ctx.work;
    const uint32_t rows = batch.token_count();
    embed(ctx, batch, embedding_);
    prepare_rows(ctx, batch);

    Residual pending;  // what the block before adds to x: done together with the next norm
    for (uint32_t i = 0; i < layers_.size(); ++i) {
      const DecoderLayer& layer = layers_[i];
      const Attention& attention = layer.attention;
      add_and_norm(ctx, rows, pending, layer.attention_norm,
                   {&attention.q, &attention.k, &attention.v});
      multiply(ctx, rows,
               {{&attention.q, w.q.get()}, {&attention.k, w.k.get()}, {&attention.v, w.v.get()}});
      rotate_and_store(ctx, batch, i, attention);
      attend(ctx, batch, i);
      take_rows(ctx, rows, w.attended.get(), ctx.config.q_values(), {&attention.out});
      multiply(ctx, rows, {{&attention.out, w.y.get()}});
      pending = {
          .add = w.y.get(), .bias = attention.out_bias, .post_norm = layer.attention_post_norm};
      run_mlp(ctx, rows, pending, layer);
      pending = {.add = w.y.get(), .post_norm = layer.mlp_post_norm};
    }

    more_logits(ctx, batch.logit_rows, logits);
  }

  void more_logits(ForwardContext& ctx, std::span<const uint32_t> rows,
                   float* logits) const override {
    const Linear& head = tied_ ? embedding_ : output_;
    const Residual last = {.add = ctx.work.y.get(), .post_norm = layers_.back().mlp_post_norm};
    add_and_norm_rows(ctx, rows, last, output_norm_, {&head});
    const auto count = static_cast<uint32_t>(rows.size());
    multiply(ctx, count, {{&head, logits}});
    cap_logits(ctx, count, logits);
  }

 private:
  // y = the MLP, or the mixture, of x + residual.
  static void run_mlp(ForwardContext& ctx, uint32_t rows, const Residual& residual,
                      const DecoderLayer& layer) {
    Workspace& w = ctx.work;
    if (ctx.config.experts > 0) {
      add_and_norm(ctx, rows, residual, layer.mlp_norm, {&layer.mixture.router});
      run_mixture(ctx, rows, layer.mixture);
      return;
    }
    const Mlp& mlp = layer.mlp;
    add_and_norm(ctx, rows, residual, layer.mlp_norm, {&mlp.gate, &mlp.up});
    multiply(ctx, rows, {{&mlp.gate, w.gate.get()}, {&mlp.up, w.up.get()}});
    gate_rows(ctx, rows, ctx.config.d_ff, {&mlp.down});
    multiply(ctx, rows, {{&mlp.down, w.y.get()}});
  }

  Linear embedding_;  // [vocabulary][d_model]
  Linear output_;     // [vocabulary][d_model], unless tied to the embedding
  bool tied_ = false;
  const float* output_norm_ = nullptr;
  std::vector<DecoderLayer> layers_;
};

}  // namespace

Result<std::unique_ptr<Network>> bind_decoder(const ModelConfig& config, WeightLoader& loader,
                                              BindLayer bind_layer) {
  auto decoder = std::make_unique<Decoder>();
  TRY(decoder->bind(config, loader, bind_layer));
  return std::unique_ptr<Network>(std::move(decoder));
}

Status bind_norm(const ModelConfig& config, WeightLoader& loader, const std::string& name,
                 const float** norm) {
  return loader.claim_vector(name, config.d_model, norm);
}

Status bind_attention(const ModelConfig& config, WeightLoader& loader, const std::string& prefix,
                      Attention& attention) {
  const uint32_t q = config.q_values();
  const uint32_t kv = config.kv_values();
  TRY(loader.claim_matrix(prefix + "attn_q.weight", q, config.d_model, &attention.q));
  TRY(loader.claim_matrix(prefix + "attn_k.weight", kv, config.d_model, &attention.k,
                          kKeyValuePrecision));
  TRY(loader.claim_matrix(prefix + "attn_v.weight", kv, config.d_model, &attention.v,
                          kKeyValuePrecision));
  TRY(loader.claim_matrix(prefix + "attn_output.weight", config.d_model, q, &attention.out));
  TRY(loader.claim_vector_if_present(prefix + "attn_q.bias", q, &attention.q_bias));
  TRY(loader.claim_vector_if_present(prefix + "attn_k.bias", kv, &attention.k_bias));
  TRY(loader.claim_vector_if_present(prefix + "attn_v.bias", kv, &attention.v_bias));
  TRY(loader.claim_vector_if_present(prefix + "attn_output.bias", config.d_model,
                                     &attention.out_bias));
  if (config.qk_norm == QkNorm::kNone) return Ok{};
  const bool per_head = config.qk_norm == QkNorm::kHead;
  TRY(loader.claim_vector(prefix + "attn_q_norm.weight", per_head ? config.head_dim : q,
                          &attention.q_norm));
  return loader.claim_vector(prefix + "attn_k_norm.weight", per_head ? config.head_dim : kv,
                             &attention.k_norm);
}

Status bind_mlp(const ModelConfig& config, WeightLoader& loader, const std::string& prefix,
                DecoderLayer& layer) {
  if (config.experts > 0) return bind_mixture(config, loader, prefix, layer.mixture);
  Mlp& mlp = layer.mlp;
  TRY(loader.claim_matrix(prefix + "ffn_gate.weight", config.d_ff, config.d_model, &mlp.gate));
  TRY(loader.claim_matrix(prefix + "ffn_up.weight", config.d_ff, config.d_model, &mlp.up));
  return loader.claim_matrix(prefix + "ffn_down.weight", config.d_model, config.d_ff, &mlp.down);
}

Status bind_pre_norm_layer(const ModelConfig& config, WeightLoader& loader,
                           const std::string& prefix, DecoderLayer& layer) {
  TRY(bind_norm(config, loader, prefix + "attn_norm.weight", &layer.attention_norm));
  TRY(bind_attention(config, loader, prefix, layer.attention));
  TRY(bind_norm(config, loader, prefix + "ffn_norm.weight", &layer.mlp_norm));
  return bind_mlp(config, loader, prefix, layer);
}

}  // namespace pacer::model
