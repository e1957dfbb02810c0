#!/usr/bin/env python3
"""Golden logits of the tiny random-weight models of tiny_models.py, by Hugging Face transformers.

A golden in tiny/ describes a whole GGUF (metadata, tensors) without storing a weight: every value
is a formula of (seed, index), see values(). Here the same tensors go into a transformers model
whose config is built by hand; its float32 logits are what src/model must reproduce. Each model
also names the features it is there for, and the script refuses to write a golden in which
switching one of them off moves no logit by 5 x the tolerance: such a test could not fail.

    make_tiny.py                      all models -> tiny/*.json   (torch, transformers, numpy)
    make_tiny.py llama gemma3         only these
    make_tiny.py --write-gguf DIR     tiny/*.json -> DIR/*.gguf   (gguf, numpy; no torch)
"""

import argparse
import copy
import json
import pathlib
import sys

import numpy as np

from tiny_models import MODELS  # what there is: configs, tensors, features

HERE = pathlib.Path(__file__).resolve().parent
TOLERANCE = 0.03       # what tiny_test.cpp allows on a logit: its keys and values are f16
VISIBLE = 5 * TOLERANCE
NOISE_MAX = 1e-4       # of float32 against float64, in the reference itself
ROUTER_GAP = 1e-3      # between the last expert taken and the first left out
GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mix64(x):
    """mix64 of src/base/rng.h (SplitMix64's step), on an array of uint64; wraps."""
    x = x + GOLDEN
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def uniform(seed, count):
    """count values in [0, 1) with 24 bits."""
    with np.errstate(over="ignore"):
        bits = mix64(np.uint64(seed) * GOLDEN + np.arange(count, dtype=np.uint64))
    return (bits >> np.uint64(40)).astype(np.float64) * 2.0**-24


def values(tensor):
    """The float32 values of a tensor description, as a numpy array (slowest dimension first)."""
    shape = tuple(reversed(tensor["shape"]))
    if "values" in tensor:
        return np.array(tensor["values"], dtype=np.float64).astype(np.float32).reshape(shape)
    u = uniform(tensor["seed"], int(np.prod(shape)))
    x = tensor["offset"] + tensor["scale"] * (2.0 * u - 1.0)
    return x.astype(np.float32).reshape(shape)


# ---- GGUF tensors -> transformers parameters ------------------------------------------------

PARTS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_qkv": "self_attn.qkv_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_gate_inp": "mlp.gate",
}


def unpermute(weight, heads):
    """The converter interleaves the two halves of each head's rows (q and k of `llama`)."""
    rows = weight.shape[0] // heads
    split = weight.reshape(heads, rows // 2, 2, *weight.shape[1:])
    return split.swapaxes(1, 2).reshape(weight.shape)


def hf_parameters(model, tensors):
    """Undoes what the converter did: {transformers name: array} from {GGUF name: array}."""
    arch, config = model["arch"], model["config"]
    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    top = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
    out = {}
    for name, array in tensors.items():
        if name.startswith("rope_f"):
            continue  # rope_freqs, rope_factors_*: transformers has them in the config
        stem, kind = name.rsplit(".", 1)
        if stem in top:
            target, part = top[stem], stem
        else:
            _, layer, part = stem.split(".")
            if part.endswith("_exps"):
                continue
            hf_part = PARTS.get(part)
            if part == "ffn_norm":  # before the feed-forward; the name depends on the family
                gemma = arch.startswith("gemma")
                hf_part = "pre_feedforward_layernorm" if gemma else "post_attention_layernorm"
            if part == "ffn_up" and arch == "phi3":
                hf_part = "mlp.gate_up_proj"
            target = f"model.layers.{layer}.{hf_part}"
        if arch == "llama" and part in heads and not model.get("keep_halves"):
            array = unpermute(array, heads[part])
        if arch.startswith("gemma") and part.endswith("norm"):
            array = array - np.float32(1)  # exact: weights are near 1
        out[f"{target}.{kind}"] = array
    for name in tensors:
        if name.endswith(".ffn_gate_exps.weight"):
            layer = name.split(".")[1]
            pair = [tensors[f"blk.{layer}.ffn_{w}_exps.weight"] for w in ("gate", "up")]
            experts = f"model.layers.{layer}.mlp.experts"
            out[f"{experts}.gate_up_proj"] = np.concatenate(pair, axis=1)
            out[f"{experts}.down_proj"] = tensors[f"blk.{layer}.ffn_down_exps.weight"]
    return out


def hf_model(model, tensors):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, logging

    logging.set_verbosity_error()  # it warns of parameters that a switched-off scaling ignores
    config = AutoConfig.for_model(model["hf_type"], **copy.deepcopy(model["config"]))
    torch.manual_seed(0)
    hf = AutoModelForCausalLM.from_config(
        config, attn_implementation="eager", experts_implementation="eager", dtype=torch.float32
    ).eval()
    given = hf_parameters(model, tensors)
    with torch.no_grad():
        for name, parameter in hf.named_parameters():  # a tied lm_head is not listed twice
            array = given.pop(name)
            assert parameter.shape == array.shape, (name, parameter.shape, array.shape)
            parameter.copy_(torch.from_numpy(np.ascontiguousarray(array)))
    assert not given, f"{model['name']}: no such parameter: {sorted(given)}"
    for poke in model.get("pokes", []):
        poke(hf)
    return hf


def logits(model, tensors, tokens, double=False):
    """float64 array [len(tokens), vocabulary]; and the narrowest router gap met."""
    import torch

    hf = hf_model(model, tensors)
    gaps = []

    def watch(module, _, output):
        taken = torch.sort(output[0], dim=-1, descending=True).values
        gaps.append(float((taken[:, module.top_k - 1] - taken[:, module.top_k]).min()))

    for module in hf.modules():
        if hasattr(module, "top_k") and module.__class__.__name__.endswith("TopKRouter"):
            module.register_forward_hook(watch)
    if double:
        hf = hf.double()
    with torch.no_grad():
        out = hf(input_ids=torch.tensor([tokens]), use_cache=False).logits[0]
    return out.double().numpy(), min(gaps, default=None)


# ---- one golden ------------------------------------------------------------------------------


def tokens_of(seed, count, vocabulary):
    return [int(v) for v in uniform(seed, count) * vocabulary]


def make(model):
    name = model["name"]
    vocabulary = model["config"]["vocab_size"]
    tensors = {t["name"]: values(t) for t in model["tensors"]}
    cases, worst_noise, moved = [], 0.0, {}
    for index, case in enumerate(model["cases"]):
        tokens = tokens_of(1000 + index, case["tokens"], vocabulary)
        reference, gap = logits(model, tensors, tokens)
        if gap is not None and gap < ROUTER_GAP:
            sys.exit(f"{name}: experts nearly tie (gap {gap:.2e}); change the seed")
        exact, _ = logits(model, tensors, tokens, double=True)
        worst_noise = max(worst_noise, float(np.abs(exact - reference).max()))
        positions = case["positions"]
        kept = reference[positions]
        for label, change in model["features"].items():
            if case.get("features", list(model["features"])).count(label) == 0:
                continue
            other, other_tensors = copy.deepcopy(model), dict(tensors)
            change(other, other_tensors)
            without, _ = logits(other, other_tensors, tokens)
            effect = float(np.abs(without[positions] - kept).max())
            moved[label] = max(moved.get(label, 0.0), effect)
        entry = {"tokens": tokens}
        if "context" in case:
            entry["context"] = case["context"]
        entry["logits"] = {
            str(p): [float(f"{v:.6g}") for v in row] for p, row in zip(positions, kept)
        }
        cases.append(entry)
        spread = kept.std(axis=1)
        print(f"{name}: logits std {spread.min():.2f}..{spread.max():.2f} "
              f"max {np.abs(kept).max():.1f}  f32 noise {worst_noise:.1e}  router gap {gap}")
    for label, effect in sorted(moved.items(), key=lambda item: item[1]):
        print(f"    without {label}: {effect:.3f}")
        if effect < VISIBLE:
            sys.exit(f"{name}: '{label}' moves no logit by {VISIBLE}: the golden would not see it")
    missing = set(model["features"]) - set(moved)
    assert not missing, (name, missing)
    if worst_noise > NOISE_MAX:
        sys.exit(f"{name}: float32 itself is off by {worst_noise:.1e}")
    return {
        "name": name,
        "about": model["about"],
        "metadata": model["metadata"],
        "tensors": model["tensors"],
        "moved_by": {label: float(f"{effect:.3g}") for label, effect in moved.items()},
        "cases": cases,
    }


def dump(golden):
    """JSON with one key, tensor or row of logits a line."""
    def line(value):
        return json.dumps(value, separators=(",", ":"))

    def block(items, indent):
        return (",\n" + " " * indent).join(items)

    meta = block([f"{line(k)}: {line(v)}" for k, v in golden["metadata"].items()], 2)
    moved = block([f"{line(k)}: {line(v)}" for k, v in golden["moved_by"].items()], 2)
    tensors = block([line(t) for t in golden["tensors"]], 2)
    cases = []
    for case in golden["cases"]:
        head = [f"{line(k)}: {line(v)}" for k, v in case.items() if k != "logits"]
        rows = block([f"{line(p)}: {line(v)}" for p, v in case["logits"].items()], 4)
        cases.append("{" + block(head + ['"logits": {\n    ' + rows + "}"], 3) + "}")
    return (
        f'{{"name": {line(golden["name"])},\n "about": {line(golden["about"])},\n'
        f' "metadata": {{\n  {meta}}},\n "tensors": [\n  {tensors}],\n'
        f' "moved_by": {{\n  {moved}}},\n "cases": [\n  {block(cases, 2)}]}}\n'
    )


# ---- GGUF --------------------------------------------------------------------------------------


def write_gguf(golden, path):
    import gguf

    writer = gguf.GGUFWriter(str(path), golden["metadata"]["general.architecture"]["value"])
    add = {"u32": writer.add_uint32, "f32": writer.add_float32, "str": writer.add_string,
           "bool": writer.add_bool}
    for key, item in golden["metadata"].items():
        if key == "general.architecture":
            continue  # the writer has it already
        if item["type"].startswith("arr_"):
            writer.add_array(key, item["value"])
        else:
            add[item["type"]](key, item["value"])
    for tensor in golden["tensors"]:
        writer.add_tensor(tensor["name"], values(tensor))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="models (default: all)")
    parser.add_argument("--write-gguf", metavar="DIR", type=pathlib.Path)
    args = parser.parse_args()
    unknown = set(args.names) - set(MODELS)
    if unknown:
        sys.exit(f"no such model: {sorted(unknown)}; there are {sorted(MODELS)}")
    for name in args.names or MODELS:
        path = HERE / "tiny" / f"{name}.json"
        if args.write_gguf:
            args.write_gguf.mkdir(parents=True, exist_ok=True)
            write_gguf(json.loads(path.read_text()), args.write_gguf / f"{name}.gguf")
            continue
        path.parent.mkdir(exist_ok=True)
        path.write_text(dump(make(MODELS[name]())))


if __name__ == "__main__":
    main()
