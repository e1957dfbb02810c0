#include "model/mixture.h"

#include <algorithm>
#include <cmath>

#include "model/layers.h"

namespace pacer::model {

namespace {

// A stack of all experts, or, in older files, a tensor for each. Where there is neither, the stack
// is reported as missing.
Status bind_experts(const ModelConfig& config, WeightLoader& loader, const std::string& name,
                    uint32_t rows, uint32_t columns, std::vector<Linear>& experts) {
  const std::string stack = name + "_exps.weight";
  if (loader.has(stack) || !loader.has(name + ".0.weight")) {
    return loader.claim_stack(stack, rows, columns, config.experts, &experts);
  }
  experts.resize(config.experts);
  for (uint32_t i = 0; i < config.experts; ++i) {
    const std::string one = fmt::format("{}.{}.weight", name, i);
    TRY(loader.claim_matrix(one, rows, columns, &experts[i]));
    // Activations are prepared once for all experts.
    if (experts[i].format != experts[0].format) {
      return error(Code::kUnsupported, "tensor '{}' is of another type than expert 0's", one);
    }
  }
  return Ok{};
}

// The best experts of one token, best first (the lower index among equals), and the softmax of
// their logits.
void choose_experts(const ModelConfig& config, const float* logits, uint32_t* chosen,
                    float* weights) {
  const uint32_t used = config.experts_used;
  for (uint32_t rank = 0; rank < used; ++rank) {
    uint32_t best = config.experts;
    for (uint32_t e = 0; e < config.experts; ++e) {
      const bool is_taken = std::find(chosen, chosen + rank, e) != chosen + rank;
      if (!is_taken && (best == config.experts || logits[e] > logits[best])) best = e;
    }
    chosen[rank] = best;
  }
  float sum = 0;
  for (uint32_t rank = 0; rank < used; ++rank) {
    weights[rank] = std::exp(logits[chosen[rank]] - logits[chosen[0]]);
    sum += weights[rank];
  }
  for (uint32_t rank = 0; rank < used; ++rank) weights[rank] /= sum;
}

// Gives every (token, rank) its slot, tokens of an expert side by side; first[e] is the first slot
// of expert e, first[experts] the count of all.
void assign_slots(const ModelConfig& config, uint32_t rows, MixtureWork& work) {
  std::fill_n(work.first.get(), config.experts + 1, 0u);
  const uint32_t count = rows * config.experts_used;
  for (uint32_t i = 0; i < count; ++i) ++work.first.get()[work.chosen.get()[i] + 1];
  for (uint32_t e = 0; e < config.experts; ++e) work.first.get()[e + 1] += work.first.get()[e];
  std::copy_n(work.first.get(), config.experts, work.next.get());
  for (uint32_t i = 0; i < count; ++i) {
    work.slot.get()[i] = work.next.get()[work.chosen.get()[i]]++;
  }
}

// Products of every expert that has tokens with its matrix.
void list_products(const MixtureWork& work, const std::vector<Linear>& matrices, float* out,
                   std::vector<Product>& products) {
  for (uint32_t e = 0; e < matrices.size(); ++e) {
    const uint32_t first = work.first.get()[e];
    const uint32_t rows = work.first.get()[e + 1] - first;
    if (rows == 0) continue;
    products.push_back({.matrix = &matrices[e],
                        .out = out + size_t{first} * matrices[e].rows,
                        .first_row = first,
                        .rows = rows});
  }
}

}  // namespace

Status bind_mixture(const ModelConfig& config, WeightLoader& loader, const std::string& prefix,
                    Mixture& mixture) {
  const uint32_t ff = config.d_ff_expert;
  TRY(loader.claim_matrix(prefix + "ffn_gate_inp.weight", config.experts, config.d_model,
                          &mixture.router));
  TRY(bind_experts(config, loader, prefix + "ffn_gate", ff, config.d_model, mixture.gate));
  TRY(bind_experts(config, loader, prefix + "ffn_up", ff, config.d_model, mixture.up));
  return bind_experts(config, loader, prefix + "ffn_down", config.d_model, ff, mixture.down);
}

void run_mixture(ForwardContext& ctx, uint32_t rows, const Mixture& mixture) {
  const ModelConfig& config = ctx.config;
  Workspace& w = ctx.work;
  MixtureWork& work = *w.mixture;
  const uint32_t used = config.experts_used;
  const uint32_t slots = rows * used;

  multiply(ctx, rows, {{&mixture.router, work.router.get()}});
  for_each_row(ctx, rows, [&](uint32_t row) {
    choose_experts(config, work.router.get() + size_t{row} * config.experts,
                   work.chosen.get() + size_t{row} * used, work.weights.get() + size_t{row} * used);
  });
  assign_slots(config, rows, work);

  const Linear* const first_consumers[] = {&mixture.gate[0], &mixture.up[0]};
  work.activations.reset(ctx.kernels, slots, config.d_model, first_consumers);
  for_each_row(ctx, rows, [&](uint32_t row) {
    for (uint32_t rank = 0; rank < used; ++rank) {
      const uint32_t slot = work.slot.get()[size_t{row} * used + rank];
      std::copy_n(w.activations.f32_row(row), config.d_model, work.activations.f32_row(slot));
      work.activations.finish_row(ctx.kernels, slot);
    }
  });
  std::vector<Product>& products = work.products;
  products.clear();
  list_products(work, mixture.gate, w.gate.get(), products);
  list_products(work, mixture.up, w.up.get(), products);
  multiply_all(ctx, work.activations, products);

  const Linear* const second_consumers[] = {&mixture.down[0]};
  gate_into(ctx, slots, config.d_ff_expert, work.activations, second_consumers);
  products.clear();
  list_products(work, mixture.down, work.answers.get(), products);
  multiply_all(ctx, work.activations, products);

  for_each_row(ctx, rows, [&](uint32_t row) {
    float* y = w.y.get() + size_t{row} * config.d_model;
    std::fill_n(y, config.d_model, 0.0f);
    for (uint32_t rank = 0; rank < used; ++rank) {
      const size_t index = size_t{row} * used + rank;
      const float weight = work.weights.get()[index];
      const float* answer = work.answers.get() + size_t{work.slot.get()[index]} * config.d_model;
      for (uint32_t i = 0; i < config.d_model; ++i) y[i] += weight * answer[i];
    }
  });
}

}  // namespace pacer::model
