"""The tiny models of make_tiny.py: what each covers, its config, its GGUF metadata and tensors.

One function a model, in MODELS. Tensor names and layouts are those that llama.cpp's converter
writes for the architecture; `features` are changes that must be visible in the logits.
"""

import math

VOCABULARY = 96
TOKENS = 60
POSITIONS = [0, 3, 17, 33, 48, 59]


class Tensors:
    """Collects tensor descriptions; each gets the next seed."""

    def __init__(self, first_seed):
        self.list = []
        self.seed = first_seed

    def add(self, name, shape, scale, offset=0):
        scale = float(f"{scale:.3g}")
        self.list.append({"name": name, "shape": shape, "seed": self.seed, "scale": scale,
                          "offset": offset})
        self.seed += 1

    def matrix(self, name, columns, rows, gain=1.0, experts=0):
        """Keeps the size of what goes in, times gain: variance of +-scale is scale^2 / 3."""
        shape = [columns, rows] + ([experts] if experts else [])
        self.add(name, shape, gain * math.sqrt(3 / columns))

    def norm(self, name, size):
        self.add(name, [size], 0.4, offset=1)

    def fixed(self, name, numbers):
        self.list.append({"name": name, "shape": [len(numbers)], "values": numbers})


def metadata(arch, name, **keys):
    """Types follow the Python type; `__` stands for the dot after the architecture's part."""
    meta = {"general.architecture": {"type": "str", "value": arch},
            "general.name": {"type": "str", "value": f"tiny {name}"},
            "general.file_type": {"type": "u32", "value": 0}}
    for key, value in keys.items():
        kind = {bool: "bool", int: "u32", float: "f32", str: "str"}[type(value)]
        meta[f"{arch}.{key.replace('__', '.')}"] = {"type": kind, "value": value}
    # No tokenizer: llama.cpp then takes the vocabulary's size from this key.
    meta[f"{arch}.vocab_size"] = {"type": "u32", "value": VOCABULARY}
    meta["tokenizer.ggml.model"] = {"type": "str", "value": "none"}
    return meta


def build(name, arch, about, hf_type, seed, *, d=64, layers=3, heads=4, kv=2, head_dim=16, ff=96,
          eps=1e-5, base=10000.0, context=128, tied=True, embedding=0.5, qk_gain=1.5, qk_bias=0,
          qk_norm="", post_norms=False, pre_norms=True, fused=False, experts=0, expert_ff=0,
          meta=None, config=None, features=None, cases=None):
    """The parts that all these architectures share."""
    t = Tensors(seed)
    q, k = heads * head_dim, kv * head_dim
    t.add("token_embd.weight", [d, VOCABULARY], embedding)
    for i in range(layers):
        p = f"blk.{i}."
        if pre_norms:
            t.norm(p + "attn_norm.weight", d)
        if fused:
            t.matrix(p + "attn_qkv.weight", d, q + 2 * k, qk_gain)
        else:
            t.matrix(p + "attn_q.weight", d, q, qk_gain)
            t.matrix(p + "attn_k.weight", d, k, qk_gain)
            t.matrix(p + "attn_v.weight", d, k)
        if qk_bias:
            for part, size in (("q", q), ("k", k), ("v", k)):
                t.add(f"{p}attn_{part}.bias", [size], qk_bias)
        if qk_norm:
            t.norm(p + "attn_q_norm.weight", head_dim if qk_norm == "head" else q)
            t.norm(p + "attn_k_norm.weight", head_dim if qk_norm == "head" else k)
        t.matrix(p + "attn_output.weight", q, d)
        if post_norms:
            t.norm(p + "post_attention_norm.weight", d)
        if pre_norms:
            t.norm(p + "ffn_norm.weight", d)
        if experts:
            t.matrix(p + "ffn_gate_inp.weight", d, experts)
            t.matrix(p + "ffn_gate_exps.weight", d, expert_ff, experts=experts)
            t.matrix(p + "ffn_up_exps.weight", d, expert_ff, experts=experts)
            t.matrix(p + "ffn_down_exps.weight", expert_ff, d, 2.0, experts=experts)
        elif fused:
            t.matrix(p + "ffn_up.weight", d, 2 * ff)
            t.matrix(p + "ffn_down.weight", ff, d, 2.0)
        else:
            t.matrix(p + "ffn_gate.weight", d, ff)
            t.matrix(p + "ffn_up.weight", d, ff)
            t.matrix(p + "ffn_down.weight", ff, d, 2.0)
        if post_norms:
            t.norm(p + "post_ffw_norm.weight", d)
    t.norm("output_norm.weight", d)
    if not tied:
        t.matrix("output.weight", d, VOCABULARY, 2.0)
    keys = {"context_length": context, "embedding_length": d, "block_count": layers,
            "feed_forward_length": ff, "attention__head_count": heads,
            "attention__head_count_kv": kv, "attention__layer_norm_rms_epsilon": eps}
    if base:
        keys["rope__freq_base"] = base
    settings = {
        "vocab_size": VOCABULARY, "hidden_size": d, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": kv, "head_dim": head_dim,
        "intermediate_size": ff, "rms_norm_eps": eps, "max_position_embeddings": context,
        "tie_word_embeddings": tied, "pad_token_id": None, "bos_token_id": None,
        "eos_token_id": None, "rope_parameters": {"rope_type": "default", "rope_theta": base},
    }
    settings.update(config or {})
    return {
        "name": name, "arch": arch, "about": about, "hf_type": hf_type, "config": settings,
        "metadata": metadata(arch, name, **{**keys, **(meta or {})}), "tensors": t.list,
        "features": features or {}, "cases": cases or [{"tokens": TOKENS, "positions": POSITIONS}],
    }


# ---- features: what to change to see whether they matter -------------------------------------


def with_config(**changes):
    def change(model, _):
        model["config"].update(changes)
    return change


def with_rope(**changes):
    """A value of None takes the parameter away."""
    def change(model, _):
        rope = model["config"]["rope_parameters"]
        rope.update(changes)
        for key in [k for k, v in rope.items() if v is None]:
            del rope[key]
    return change


def plain_rope(model, _):
    theta = model["config"]["rope_parameters"]["rope_theta"]
    model["config"]["rope_parameters"] = {"rope_type": "default", "rope_theta": theta}


def constant(part, value):
    """Every tensor whose name ends so becomes one value."""
    def change(_, tensors):
        hit = [name for name in tensors if name.endswith(part)]
        assert hit, part
        for name in hit:
            tensors[name] = tensors[name] * 0 + type(tensors[name].flat[0])(value)
    return change


def embeddings_times(factor):
    """Gemma's factor on embeddings, which is no part of its config."""
    def change(model, _):
        model["pokes"] = [lambda hf: hf.model.embed_tokens.embed_scale.fill_(factor)]
    return change


def halves(model, _):
    """The rows of q and k taken as they lie in the file (right only for rotation by halves)."""
    model["keep_halves"] = True


COMMON = {"norm weights": constant("norm.weight", 1), "rope base": with_rope(rope_theta=5e5)}
LLAMA = {**COMMON, "pairing of neighbours": halves}


# ---- the models ------------------------------------------------------------------------------


def llama():
    return build(
        "llama", "llama", "llama: grouped queries, tied embeddings, rotation of neighbours",
        "llama", 100, meta={"rope__dimension_count": 16},
        features=LLAMA)


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


def with_tied_head(_, tensors):
    tensors["output.weight"] = tensors["token_embd.weight"]


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
        "d_model 96", "gemma3_text", 500, d=96, layers=7, head_dim=32, base=1e6, eps=1e-6, qk_norm="head",
        post_norms=True, embedding=0.3,
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


MODELS = {f.__name__: f for f in (llama, qwen2, qwen2_untied, qwen3, gemma3)}
