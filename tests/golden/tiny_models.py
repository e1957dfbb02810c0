"""The tiny models of make_tiny.py: what each covers, its config, its GGUF metadata and tensors.

One function a model, in MODELS. Tensor names, layouts and metadata keys are those that llama.cpp's
converter writes for the architecture; `features` are changes that must be visible in the logits.
"""

import math

from tiny_parts import (COMMON, LLAMA, POSITIONS, TOKENS, build, constant, embeddings_times,
                        plain_rope, rotated, swap, with_config, with_rope, with_tied_head)



def llama():
    return build(
        "llama", "llama", "llama: grouped queries, tied embeddings, rotation of neighbours",
        "llama", 100, meta={"rope__dimension_count": 16},
        features={**LLAMA, "gate and up": swap("ffn_gate.weight", "ffn_up.weight")})


def mistral():
    return build(
        "mistral", "llama", "llama as Mistral files are: own output matrix, head_dim 32 while "
        "d_model / heads is 16, no window (llama.cpp has none for this architecture)",
        "mistral", 150, head_dim=32, base=1e6, tied=False,
        meta={"rope__dimension_count": 32, "attention__key_length": 32,
              "attention__value_length": 32},
        config={"sliding_window": None}, features={**LLAMA, "tied": with_tied_head})


def llama3_rope():
    factor, low, high, original, base, dims = 8.0, 1.0, 4.0, 64, 10000.0, 16
    factors = []
    for i in range(dims // 2):
        wave = 2 * math.pi * base ** (2 * i / dims)
        smooth = min(1.0, max(0.0, (original / wave - low) / (high - low)))
        factors.append(float(f"{1 / ((1 - smooth) / factor + smooth):.8g}"))
    assert factors[0] == 1 and 1 < factors[1] < factors[2] < factor and factors[3] == factor
    rope = {"rope_type": "llama3", "rope_theta": base, "factor": factor, "low_freq_factor": low,
            "high_freq_factor": high, "original_max_position_embeddings": original}
    model = build(
        "llama3_rope", "llama", "Llama 3.1's rope scaling: rope_freqs.weight divides the "
        "frequencies; kept, blended and divided bands all occur; no metadata key says so",
        "llama", 600, base=base, context=512, meta={"rope__dimension_count": dims},
        config={"rope_parameters": rope},
        features={**LLAMA, "rope_freqs": plain_rope,
                  "blended band": with_rope(low_freq_factor=3.999),
                  "divided band": with_rope(factor=7.0)})
    model["tensors"].insert(1, {"name": "rope_freqs.weight", "shape": [dims // 2],
                                "values": factors})
    return model


def llama_linear():
    return build(
        "llama_linear", "llama", "linear rope scaling: positions / 4", "llama", 700, context=512,
        meta={"rope__dimension_count": 16, "rope__scaling__type": "linear",
              "rope__scaling__factor": 4.0},
        config={"rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}},
        features={**LLAMA, "linear scaling": plain_rope})


def yarn(**more):
    return {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
            "original_max_position_embeddings": 1024, **more}


YARN_META = {"rope__scaling__type": "yarn", "rope__scaling__factor": 4.0,
             "rope__scaling__original_context_length": 1024}
YARN = {"scaling": plain_rope, "magnitude": with_rope(attention_factor=1.0),
        "kept band": with_rope(rope_type="linear"), "whole dimensions": with_rope(truncate=False)}


def llama_yarn():
    magnitude = 0.1 * math.log(4.0) + 1.0
    return build(
        "llama_yarn", "llama", "YaRN, default betas, and attn_factor: q and k each times "
        "(0.1 ln 4 + 1) x attn_factor", "llama", 800, context=4096,
        meta={"rope__dimension_count": 16, **YARN_META, "rope__scaling__attn_factor": 1.25},
        config={"rope_parameters": yarn(attention_factor=1.25 * magnitude)},
        features={**LLAMA, **YARN, "attn_factor": with_rope(attention_factor=None)})


def llama_yarn_betas():
    return build(
        "llama_yarn_betas", "llama", "YaRN with beta_fast 8 and beta_slow 2 (keys the converter "
        "writes; llama.cpp reads them for few architectures, llama not among them)", "llama", 900,
        context=4096,
        meta={"rope__dimension_count": 16, **YARN_META, "rope__scaling__yarn_beta_fast": 8.0,
              "rope__scaling__yarn_beta_slow": 2.0},
        config={"rope_parameters": yarn(beta_fast=8.0, beta_slow=2.0)},
        features={**LLAMA, **YARN, "beta_fast": with_rope(beta_fast=32.0),
                  "beta_slow": with_rope(beta_slow=1.0)})


def qwen2():
    return build(
        "qwen2", "qwen2", "qwen2: biases on q, k, v; tied embeddings; rotation of halves",
        "qwen2", 200, base=1e6, qk_bias=0.8,
        features={**COMMON, "bias of q": constant("attn_q.bias", 0),
                  "bias of k": constant("attn_k.bias", 0), "bias of v": constant("attn_v.bias", 0)})


def qwen2_untied():
    return build(
        "qwen2_untied", "qwen2", "qwen2 with its own output matrix", "qwen2", 300, tied=False,
        base=1e6, qk_bias=0.8, features={**COMMON, "tied": with_tied_head})


def qwen3():
    return build(
        "qwen3", "qwen3", "qwen3: norms of each q and k head before rotation; head_dim 32 while "
        "d_model / heads is 16", "qwen3", 400, head_dim=32, base=1e6, eps=1e-6, qk_norm="head",
        meta={"attention__key_length": 32, "attention__value_length": 32},
        features={**COMMON, "weight of q norm": constant("q_norm.weight", 1),
                  "weight of k norm": constant("k_norm.weight", 1)})


def gemma3_rope(theta=1e6, local=10000.0, factor=8.0):
    full = {"rope_type": "linear", "factor": factor, "rope_theta": theta}
    return {"full_attention": full,
            "sliding_attention": {"rope_type": "default", "rope_theta": local}}


def gemma3():
    local = ["sliding_attention"]
    return build(
        "gemma3", "gemma3", "gemma3: 7 layers, the sixth global (base 1e6, positions / 8), the "
        "others local (window 16, base 10000 without scaling: no key says so); q/k norms, norms "
        "after attention and feed-forward, embeddings x sqrt(d_model), tanh GELU; head_dim 32, "
        "d_model 96", "gemma3_text", 500, d=96, ff=128, layers=7, head_dim=32, base=1e6, eps=1e-6,
        qk_norm="head", post_norms=True, embedding=0.3,
        meta={"attention__key_length": 32, "attention__value_length": 32,
              "attention__sliding_window": 16, "rope__scaling__type": "linear",
              "rope__scaling__factor": 8.0},
        config={"rope_parameters": gemma3_rope(), "sliding_window": 16,
                "query_pre_attn_scalar": 32, "hidden_activation": "gelu_pytorch_tanh"},
        features={
            "norm weights": constant("norm.weight", 1),
            "window": with_config(sliding_window=128),
            "window 16, not 17": with_config(sliding_window=17),
            "global layer": with_config(layer_types=local * 7),
            "sixth layer": with_config(layer_types=local * 6 + ["full_attention"]),
            "linear scaling": with_config(rope_parameters=gemma3_rope(factor=1.0)),
            "global base": with_config(rope_parameters=gemma3_rope(theta=10000.0)),
            "local base": with_config(rope_parameters=gemma3_rope(local=1e6)),
            "tanh GELU, not SiLU": with_config(hidden_activation="silu"),
            "scale of scores": with_config(query_pre_attn_scalar=16),
            "embeddings x sqrt(d_model)": embeddings_times(1.0),
            "norm after attention": constant("post_attention_norm.weight", 1),
        })


def gemma3_pattern():
    kinds = ["sliding_attention", "full_attention", "sliding_attention"]
    return build(
        "gemma3_pattern", "gemma3", "gemma3 that says which layers are local (a list) and what "
        "their base is, as newer files do; no scaling", "gemma3_text", 1500, d=96, ff=128, layers=3,
        head_dim=32, base=1e6, eps=1e-6, qk_norm="head", post_norms=True, embedding=0.3,
        meta={"attention__key_length": 32, "attention__value_length": 32,
              "attention__sliding_window": 16,
              "attention__sliding_window_pattern": [kind == kinds[0] for kind in kinds],
              "rope__freq_base_swa": 5000.0},
        config={"rope_parameters": gemma3_rope(local=5000.0, factor=1.0), "sliding_window": 16,
                "layer_types": kinds, "query_pre_attn_scalar": 32,
                "hidden_activation": "gelu_pytorch_tanh"},
        features={
            "list of layers": with_config(layer_types=kinds[:1] * 3),
            "order of the list": with_config(layer_types=kinds[1:] + kinds[:1]),
            "local base": with_config(rope_parameters=gemma3_rope(factor=1.0)),
        })


def qwen3_yarn():
    return build(
        "qwen3_yarn", "qwen3", "qwen3 with YaRN as Qwen documents it for long contexts: type, "
        "factor and original context, nothing else", "qwen3", 1000, eps=1e-6, qk_norm="head",
        context=4096,
        meta={"attention__key_length": 16, "attention__value_length": 16, **YARN_META},
        config={"rope_parameters": yarn()}, features={**COMMON, **YARN})


def gemma2_like(name, about, seed, scalar, **sizes):
    return build(
        name, "gemma2", about, "gemma2", seed, head_dim=32, eps=1e-6, write_base=False,
        post_norms=True, embedding=0.3, **sizes,
        meta={"attention__key_length": 32, "attention__value_length": 32,
              "attn_logit_softcapping": 4.0, "final_logit_softcapping": 6.0,
              "attention__sliding_window": 12},
        config={"sliding_window": 12, "query_pre_attn_scalar": scalar,
                "attn_logit_softcapping": 4.0, "final_logit_softcapping": 6.0,
                "hidden_activation": "gelu_pytorch_tanh"},
        features={
            **COMMON,
            "cap of scores": with_config(attn_logit_softcapping=None),
            "cap of logits": with_config(final_logit_softcapping=None),
            "window": with_config(sliding_window=128),
            "window 12, not 13": with_config(sliding_window=13),
            "even layers local, odd global": with_config(
                layer_types=["full_attention", "sliding_attention"] * (sizes["layers"] // 2)),
            "tanh GELU, not SiLU": with_config(hidden_activation="silu"),
            "scale of scores": with_config(query_pre_attn_scalar=24),
            "embeddings x sqrt(d_model)": embeddings_times(1.0),
            "norm after attention": constant("post_attention_norm.weight", 1),
            "norm after feed-forward": constant("post_ffw_norm.weight", 1),
        })


def gemma2():
    return gemma2_like(
        "gemma2", "gemma2: caps of scores (4) and logits (6), window 12 in layers 0, 2, ..., "
        "scores / sqrt(head_dim), norms after attention and feed-forward, embeddings x "
        "sqrt(d_model), tanh GELU; head_dim 32, d_model 96; base 10000 without a key",
        1100, 32, d=96, ff=128, layers=4)


def gemma2_27b():
    model = gemma2_like(
        "gemma2_27b", "gemma2 with 46 layers, by which llama.cpp knows the 27B: scores / "
        "sqrt(d_model / heads), here 16, not head_dim, 32; no metadata key says so",
        1200, 16, d=64, layers=46, ff=64)
    model["features"] = {"scale of scores": with_config(query_pre_attn_scalar=32)}
    model["cases"] = [{"tokens": 40, "positions": [0, 20, 39]}]
    return model


def phi3_like(name, about, seed, config=None, meta=None, features=None, **more):
    return build(
        name, "phi3", about, "phi3", seed, fused=True, features={
            **COMMON, "order of q, k, v": rotated("attn_qkv.weight", 16),
            "gate before up": rotated("ffn_up.weight", 96), **(features or {})},
        config={"sliding_window": None, "original_max_position_embeddings": 128,
                **(config or {})},
        meta={"rope__scaling__original_context_length": 128, "rope__dimension_count": 16,
              "attention__sliding_window": 0, **(meta or {})}, **more)


def phi3():
    return phi3_like(
        "phi3", "phi3: q, k, v in one tensor, gate and up in another, all heads with their own k "
        "and v, own output matrix; window 0 means none", 1300, kv=4, tied=False,
        features={"tied": with_tied_head})


def phi3_window():
    return phi3_like(
        "phi3_window", "phi3 with a window of 16 in every layer, as transformers does (llama.cpp "
        "reads the key and ignores it)", 1400, tied=False, config={"sliding_window": 16},
        meta={"attention__sliding_window": 16},
        features={"window": with_config(sliding_window=None),
                  "window 16, not 17": with_config(sliding_window=17)})


def phi3_longrope():
    original, scale = 32, 4.0
    short = [1.0, 1.05, 1.1, 1.2, 1.35, 1.5]
    long = [1.1, 1.4, 2.0, 3.5, 6.0, 11.0]
    rope = {"rope_type": "longrope", "rope_theta": 10000.0, "partial_rotary_factor": 0.75,
            "short_factor": short, "long_factor": long,
            "original_max_position_embeddings": original}
    attn_factor = math.sqrt(1 + math.log(scale) / math.log(original))
    whole = with_rope(partial_rotary_factor=1.0, short_factor=short + [1.0, 1.0],
                      long_factor=long + [1.0, 1.0])
    model = phi3_like(
        "phi3_longrope", "phi3 with long and short rope factors, as Phi-4-mini: 12 of 16 values "
        "of a head are rotated, q and k times attn_factor whatever the length; the first case "
        "is run with a context beyond the original 32 (long factors), the second within (short)",
        1500, config={"rope_parameters": rope, "original_max_position_embeddings": original},
        meta={"rope__scaling__original_context_length": original, "rope__dimension_count": 12,
              "rope__scaling__attn_factor": attn_factor},
        features={"attn_factor": with_rope(attention_factor=1.0), "partial rotation": whole,
                  "long factors": with_rope(long_factor=short),
                  "short factors": with_rope(short_factor=long)},
        cases=[{"tokens": TOKENS, "positions": POSITIONS, "context": 128},
               {"tokens": 32, "positions": [0, 9, 31], "context": 32}])
    for name, factors in (("long", long), ("short", short)):
        model["tensors"].append({"name": f"rope_factors_{name}.weight", "shape": [6],
                                 "values": factors})
    return model


def olmo2():
    return build(
        "olmo2", "olmo2", "olmo2: no norms before attention and feed-forward but after them, "
        "norms of q and k over all heads at once, before rotation of halves; own output matrix",
        "olmo2", 1600, eps=1e-6, base=5e5, tied=False, pre_norms=False, post_norms=True,
        qk_norm="all", features={
            "norm weights": constant("norm.weight", 1), "rope base": with_rope(rope_theta=1e4),
            "weight of q norm": constant("q_norm.weight", 1),
            "weight of k norm": constant("k_norm.weight", 1), "tied": with_tied_head})


EXPERTS = {
    "router": rotated("ffn_gate_inp.weight", 1),
    "order of experts": rotated("ffn_down_exps.weight", 1),
    "gate and up": swap("ffn_gate_exps.weight", "ffn_up_exps.weight"),
    "two of them": with_config(num_experts_per_tok=3),
}


def qwen3moe():
    return build(
        "qwen3moe", "qwen3moe", "qwen3moe: 8 experts of which 2 are used, softmax over all of "
        "them, the two weights divided by their sum; q/k norms by head; feed_forward_length is "
        "of no use", "qwen3_moe", 1700, head_dim=32, base=1e6, eps=1e-6, qk_norm="head",
        tied=False, experts=8, expert_ff=32,
        meta={"attention__key_length": 32, "attention__value_length": 32, "expert_count": 8,
              "expert_used_count": 2, "expert_feed_forward_length": 32},
        config={"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
                "norm_topk_prob": True, "decoder_sparse_step": 1},
        features={**COMMON, **EXPERTS, "sum of weights": with_config(norm_topk_prob=False)})


def mixtral():
    return build(
        "mixtral", "llama", "llama with experts (Mixtral): 8 of feed_forward_length, 2 used, "
        "their weights divided by their sum", "mixtral", 1800, base=1e6, tied=False,
        experts=8, expert_ff=96,
        meta={"rope__dimension_count": 16, "expert_count": 8, "expert_used_count": 2},
        config={"num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": None},
        features={**LLAMA, **EXPERTS})


MODELS = {f.__name__: f for f in (
    llama, mistral, llama3_rope, llama_linear, llama_yarn, llama_yarn_betas, mixtral, qwen2,
    qwen2_untied, qwen3, qwen3_yarn, qwen3moe, gemma2, gemma2_27b, gemma3, gemma3_pattern, phi3,
    phi3_window, phi3_longrope, olmo2)}
