"""What the tiny models of tiny_models.py are put together from.

build() writes down the tensors, GGUF metadata and transformers config that all architectures
share; the functions below it are changes that switch one feature of a model off.
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
        one = value[0] if isinstance(value, list) else value
        kind = {bool: "bool", int: "u32", float: "f32", str: "str"}[type(one)]
        kind = f"arr_{kind}" if isinstance(value, list) else kind
        meta[f"{arch}.{key.replace('__', '.')}"] = {"type": kind, "value": value}
    # No tokenizer: llama.cpp then takes the vocabulary's size from this key.
    meta[f"{arch}.vocab_size"] = {"type": "u32", "value": VOCABULARY}
    meta["tokenizer.ggml.model"] = {"type": "str", "value": "none"}
    return meta


def build(name, arch, about, hf_type, seed, *, d=64, layers=3, heads=4, kv=2, head_dim=16, ff=96,
          eps=1e-5, base=10000.0, write_base=True, context=128, tied=True, embedding=0.5,
          qk_gain=1.5, qk_bias=0, qk_norm="", post_norms=False, pre_norms=True, fused=False,
          experts=0, expert_ff=0,
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
    if write_base:
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


def swap(one, other):
    """The tensors of two names exchanged."""
    def change(_, tensors):
        hit = [name for name in tensors if name.endswith(one)]
        assert hit, one
        for name in hit:
            twin = name[: -len(one)] + other
            tensors[name], tensors[twin] = tensors[twin], tensors[name]
    return change


def rotated(part, rows):
    """Every tensor whose name ends so has its slowest dimension rolled by this many rows."""
    def change(_, tensors):
        hit = [name for name in tensors if name.endswith(part)]
        assert hit, part
        for name in hit:
            array = tensors[name]
            tensors[name] = array[[(r + rows) % len(array) for r in range(len(array))]]
    return change


def with_tied_head(_, tensors):
    tensors["output.weight"] = tensors["token_embd.weight"]


COMMON = {"norm weights": constant("norm.weight", 1), "rope base": with_rope(rope_theta=5e5)}
LLAMA = {**COMMON, "pairing of neighbours": halves}
