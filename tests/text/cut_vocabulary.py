#!/usr/bin/env python3
"""Cuts a vocabulary down to the tokens that tests/text/llama_cpp/texts.jsonl can touch, so that it is small enough to commit.

  pip install gguf
  tests/text/cut_vocabulary.py ggml-vocab-NAME.gguf...   # writes tests/text/llama_cpp/NAME.gguf

What is left out is in none of the texts, as text or after WordPiece's cleaning, so it cannot change their ids. Tokens are
numbered anew; `pacer.test.original_ids` has their ids in the whole vocabulary, and NAME.ids beside it holds for both:
`text_test --gtest_filter='*CutVocabulary*'` compares.
"""
import json
import pathlib
import re
import sys
import unicodedata

from gguf import GGUFReader, GGUFWriter

FIXTURES = pathlib.Path(__file__).resolve().parent / "llama_cpp"
COPIED = ["pre", "add_bos_token", "add_eos_token", "add_space_prefix"]
# Ids that a file need not name (src/text/vocabulary.cpp).
DEFAULT_IDS = {"llama": {"bos": 1, "eos": 2, "unknown": 0}, "bert": {"bos": 101, "seperator": 102, "unknown": 100}, "gpt2": {}}
OVERLONG = re.compile(b"\xc0\xaf|\xe0\x80\xaf")  # of the texts; read as what they spell
NORMAL = 1
BYTE = 6


def alphabet():
    """GPT-2's characters for bytes: those that print as themselves, then from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return {b: chr(b) for b in printable} | {b: chr(0x100 + i) for i, b in enumerate(others)}


def texts():
    for line in (FIXTURES / "texts.jsonl").read_text().splitlines():
        row = json.loads(line)
        data = bytes.fromhex(row["hex"]) if "hex" in row else row["text"].encode()
        yield data
        yield OVERLONG.sub(b"/", data).decode("utf-8", "replace").encode()


def spelled(model):
    """All texts as the vocabulary spells them, apart from each other."""
    if model == "gpt2":
        characters = alphabet()
        return " ".join("".join(characters[b] for b in t) for t in texts())
    plain = [t.decode("utf-8", "replace") for t in texts()]
    if model == "llama":
        return "\n\0\n".join("\u2581" + t.replace(" ", "\u2581") for t in plain)
    dropped = lambda c: c == "\ufffd" or unicodedata.category(c) in ("Mn", "Cc", "Cf", "Cn", "Co")
    cleaned = ["".join(c for c in unicodedata.normalize("NFD", t) if not dropped(c)) for t in plain]
    return "\0".join(plain + [t.lower() for t in plain + cleaned])


def cut(source, target):
    fields = {name: field.contents() for name, field in GGUFReader(source).fields.items() if name.startswith("tokenizer.")}
    get = lambda key: fields.get("tokenizer.ggml." + key)
    model, tokens, kinds = get("model"), get("tokens"), get("token_type")
    ids = dict(DEFAULT_IDS[model])
    ids |= {k.removeprefix("tokenizer.ggml.").removesuffix("_token_id"): v for k, v in fields.items() if k.endswith("_token_id")}
    where = spelled(model)
    raw = "\0".join(t.decode("utf-8", "replace") for t in texts())

    def touched(i):
        text = tokens[i]
        if i in ids.values() or kinds[i] == BYTE:
            return True
        if kinds[i] != NORMAL:
            return text in raw
        return (model == "gpt2" and len(text) == 1) or (text.removeprefix("\u2581") if model == "bert" else text) in where

    kept = [i for i in range(len(tokens)) if touched(i)]
    new_ids = {old: new for new, old in enumerate(kept)}

    writer = GGUFWriter(target, "llama")
    writer.add_string("tokenizer.ggml.model", model)
    for key in COPIED:
        if (value := get(key)) is not None:
            (writer.add_bool if isinstance(value, bool) else writer.add_string)("tokenizer.ggml." + key, value)
    if name := GGUFReader(source).fields.get("general.name"):
        writer.add_string("general.name", name.contents())
    for name, old in ids.items():
        if old in new_ids:
            writer.add_uint32(f"tokenizer.ggml.{name}_token_id", new_ids[old])
    writer.add_array("tokenizer.ggml.tokens", [tokens[i] for i in kept])
    writer.add_array("tokenizer.ggml.token_type", [kinds[i] for i in kept])
    if model == "llama":
        writer.add_array("tokenizer.ggml.scores", [get("scores")[i] for i in kept])
    if model == "gpt2":
        writer.add_array("tokenizer.ggml.merges", [m for m in get("merges") if m.replace(" ", "") in where])
    writer.add_array("pacer.test.original_ids", kept)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    print(f"{target.name}: {len(kept)} of {len(tokens)} tokens, {target.stat().st_size} bytes")


for path in map(pathlib.Path, sys.argv[1:]):
    cut(path, FIXTURES / (path.stem.removeprefix("ggml-vocab-") + ".gguf"))
