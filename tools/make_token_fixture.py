#!/usr/bin/env python3
"""Writes the tokenizer fixtures of tests/text, with Hugging Face `tokenizers` and llama.cpp as the references.

  pip install tokenizers gguf
  tools/make_token_fixture.py SmolLM2-135M-Instruct.Q4_1.gguf            # rewrites tests/text/*.jsonl
  tools/make_token_fixture.py MODEL.gguf --out DIR --random 5000 --seed 1  # a larger check, not kept:
  PACER_TOKEN_FIXTURES=DIR build/dev/text_test --gtest_filter='Fixture.*'

  pip install llama-cpp-python
  tools/make_token_fixture.py --llama-cpp MODEL.gguf...                  # rewrites tests/text/llama_cpp/

smollm_ids.jsonl   {"name", "text", "parse_special", "ids"}: byte-level BPE with the vocabulary and merges of the GGUF.
pieces.jsonl       {"name", "pre", "text", "pieces"}: how each pre-tokenizer cuts; needs no vocabulary.
llama_cpp/texts.jsonl   {"name", "special", "text" or "hex"}: the texts; those in hex are no UTF-8.
llama_cpp/NAME.ids      a line for each text: its ids in the vocabulary of NAME.gguf (or ggml-vocab-NAME.gguf).
"""
import argparse
import json
import pathlib
import random
import unicodedata

from gguf import GGUFReader
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

# As in the tokenizer.json files of the models; GPT-2's pattern is built into ByteLevel.
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
          r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
          r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK3 = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
             r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")


def splits(*patterns):
    stages = [pre_tokenizers.Split(Regex(p), behavior="isolated") for p in patterns]
    return pre_tokenizers.Sequence(stages + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


PRE = {
    "gpt-2": pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
    "smollm": pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]),
    "llama-bpe": pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]),
    "qwen2": splits(QWEN2),
    "qwen35": splits(QWEN35),
    "tekken": splits(TEKKEN),
    "gpt-4o": splits(GPT4O),
    "deepseek-v3": splits(r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", DEEPSEEK3),
}

CASES = {
    "empty": "",
    "one space": " ",
    "spaces": "    ",
    "spaces before a word": "    return x",
    "spaces at the end": "word   ",
    "tabs": "\t\tx\t y",
    "line breaks": "a\nb\r\nc\rd\n\n\ne",
    "line breaks and spaces": "a  \n  b \n\n   \n c",
    "vertical tab, form feed, next line": "a\x0bb\x0cc\x85d",
    "unicode spaces": "a\u00a0b\u2003\u2003c\u3000d\u1680e\u202ff",
    "mongolian vowel separator is no space": "a \u180e b\u180e\u180e",
    "zero width": "a\u200bb\u200dc\ufeffd",
    "line separators": "a\u2028b\u2029c",
    "contractions": "I'm you're he's we'd they'll I've can't 'tis rock'n'roll",
    "contractions in capitals": "I'M YOU'RE HE'S WE'D THEY'LL I'VE CAN'T",
    "contraction with a long s": "it'\u017f",
    "typographic apostrophe": "don\u2019t it\u2019s",
    "digits": "0 7 42 123 1234 1234567890",
    "digits in words": "abc123def 4x4 v1.2.3",
    "numbers": "3.14 1,000,000 -5 1e-10 0x1F 50%",
    "other digits": "\u0661\u0662\u0663 \u0967\u0968\u0969 \uff11\uff12 \u00b2\u00b3 \u00bd \u2167 \u4e00\u4e8c",
    "punctuation": "Hello, world! (yes?) [no]; {x: y} \"q\" #1 @me a&b c|d ~ ^ ` \\ /",
    "punctuation runs": "...!!!??? --- ===> <<<>>> :-) \u2026 \u2014 \u00ab\u00bb",
    "punctuation and line breaks": "end.\n\nNext!\r\n?\n",
    "german": "Stra\u00dfe \u00c4rger \u00fcber gro\u00dfe F\u00fc\u00dfe",
    "french": "\u00c0 c\u00f4t\u00e9 de l'\u0153uvre, \u00e7a va?",
    "combining": "e\u0301 n\u0303 a\u0308\u0323",
    "vietnamese": "Ti\u1ebfng Vi\u1ec7t c\u00f3 d\u1ea5u",
    "russian": "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u0401\u0436\u0438\u043a",
    "greek": "\u039a\u03b1\u03bb\u03b7\u03bc\u03ad\u03c1\u03b1 \u03ba\u03cc\u03c3\u03bc\u03b5",
    "chinese": "\u4f60\u597d\uff0c\u4e16\u754c\uff01\u8fd9\u662f\u4e00\u4e2a\u6d4b\u8bd5\u3002",
    "japanese": "\u3053\u3093\u306b\u3061\u306f\u3001\u4e16\u754c\u3002\u30c6\u30b9\u30c8 \uff76\uff9e",
    "korean": "\uc548\ub155\ud558\uc138\uc694 \uc138\uacc4",
    "arabic": "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645 \u064b\u064c",
    "hebrew": "\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd \u05e2\u05d5\u05dc\u05dd",
    "hindi": "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e",
    "thai": "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01",
    "emoji": "\U0001f600\U0001f44d \U0001f680!",
    "emoji sequences": "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea \U0001f44d\U0001f3fd \u2764\ufe0f",
    "mathematics": "\u2200x\u2208\u211d: \u2211\u1d62 x\u1d62\u00b2 \u2264 \u221e \U0001d4d0\U0001d4d1",
    "control characters": "a\x00b\x01c\x1bd\x7fe\x80f\x9f",
    "noncharacters": "a\ufdd0b\uffffc\U0010ffffd",
    "private use": "\ue000\uf8ff\U000f0000",
    "replacement": "a\ufffdb\ufffd\ufffd",
    "code": "def f(x: int) -> str:\n    \"\"\"Doc.\"\"\"\n    return f\"{x:>5}\"  # done\n",
    "c code": "#include <stdio.h>\nint main(void) {\n\tprintf(\"%d\\n\", 1<<2);\n\treturn 0;\n}\n",
    "json": "{\"a\": [1, 2.5, null], \"b\": {\"c\": \"\\u00e9\"}}",
    "url": "https://example.org/a_b-c?x=1&y=%20#z",
    "camel": "camelCase PascalCase snake_case SCREAMING_CASE kebab-case",
    "long word": "pneumonoultramicroscopicsilicovolcanoconiosis" * 3,
    "one letter often": "a" * 100,
    "one letter very often": "z" * 3000,
    "one mark often": "=" * 200,
    "control tokens": "<|im_start|>user\nhi<|im_end|>\n<|endoftext|>",
    "control token inside a word": "a<|im_end|>b c<|im_end|> d",
    "not quite control tokens": "<|im_end| > <|im_en<|im_end|>d|> <|IM_END|> <<|im_end|>>",
    "control tokens one after another": "<|im_end|><|im_end|><reponame><repo_name>",
}

# Texts of special tokens. None begins with a BOS: llama.cpp would write a second one.
SPECIAL_CASES = {
    "chat": "<|im_start|>user\nhi <|im_end|>\n<start_of_turn>model\nyes<end_of_turn>",
    "unfinished": "a<|im_end|b <|im_en <<|endoftext|>>",
    "inside a word": "a<|endoftext|>b c<|eot_id|>d [MASK]e",
    "spaces around": "a <|user|> \n b <|end|>\n\nc  ",
    "fill in": "<fim_prefix>def f():\n<fim_suffix>\n<|fim_middle|>",
    "bytes by name": "<0x0A><0xe9> <unk> <unused3>",
    "user-defined": "<h1>x</h1>\n\n\n<td>   \t\t",
}
ILL_FORMED_CASES = {
    "alone": b"a\xffz \x80\x80 \xfe",
    "cut short": b"caf\xc3",
    "cut short inside": b"\xe4\xbd abc \xf0\x9f\x98z",
    "overlong": b"a\xc0\xafb \xe0\x80\xaf",
    "surrogates": b"a \xed\xa0\x80\xed\xb0\x80 b",
    "latin-1": "Stra\u00dfe \u00fcber gro\u00dfe".encode("latin-1"),
    "random": random.Random(0).randbytes(40).replace(b"\xf4", b"").replace(b"\xf5", b""),
}
LLAMA_CPP_TEXT_BYTES_MAX = 400  # the fixtures are committed


def hf_tokenizer(gguf, special):
    fields = GGUFReader(gguf).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    kinds = fields["tokenizer.ggml.token_type"].contents()
    merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"].contents()]
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = PRE["smollm"]
    tokenizer.decoder = decoders.ByteLevel()
    if special:
        tokenizer.add_special_tokens([AddedToken(t, special=True) for t, k in zip(tokens, kinds) if k == 3])
    return tokenizer


def random_text(rng):
    """A few characters out of a few kinds, so that rare neighbours meet.

    Only characters that this Python's Unicode knows: what newer versions added, PCRE2 may not know either.
    """
    def any_character():
        while True:
            c = rng.choice([rng.randrange(0x80), rng.randrange(0x3000), rng.randrange(0x10000), rng.randrange(0x110000)])
            if unicodedata.category(chr(c)) not in ("Cs", "Cn"):
                return chr(c)
    kinds = [lambda: rng.choice(" \t\n\r\u00a0\u3000"), lambda: rng.choice("aeistln"), lambda: rng.choice("AEIST"),
             lambda: rng.choice("0123456789\u00b2\u0663"), lambda: rng.choice("'.,!?-_<>|/"),
             lambda: rng.choice(["'s", "'LL", "the", " and", "<|im_end|>", "  ", "\r\n"]), any_character]
    chosen = rng.sample(kinds, rng.randrange(1, len(kinds) + 1))
    return "".join(rng.choice(chosen)() for _ in range(rng.randrange(1, 60)))


def every_character():
    """Each assigned character of Unicode between letters, digits, spaces and itself; 128 to a text."""
    kind = lambda p: unicodedata.category(chr(p))
    points = [p for p in range(0x110000) if kind(p) not in ("Cs", "Cn") and (p < 0x10000 or kind(p) != "Co")]
    for start in range(0, len(points), 128):
        yield "".join(f"x{c}y {c} {c}{c}1{c}'s\n" for c in map(chr, points[start:start + 128]))


def llama_cpp_texts():
    rows = [{"name": n, "special": False, "text": t} for n, t in {**CASES, **SPECIAL_CASES}.items()
            if len(t.encode()) <= LLAMA_CPP_TEXT_BYTES_MAX]
    rows += [{"name": n, "special": True, "text": t} for n, t in SPECIAL_CASES.items()]
    return rows + [{"name": n, "special": False, "hex": b.hex()} for n, b in ILL_FORMED_CASES.items()]


def write_llama_cpp(folder, models):
    from llama_cpp import Llama
    folder.mkdir(exist_ok=True)
    rows = llama_cpp_texts()
    write(folder / "texts.jsonl", rows)
    for model in models:
        llama = Llama(model_path=str(model), vocab_only=True, verbose=False)
        name = model.stem.removeprefix("ggml-vocab-")
        with open(folder / f"{name}.ids", "w", encoding="ascii") as f:
            for row in rows:
                text = bytes.fromhex(row["hex"]) if "hex" in row else row["text"].encode()
                ids = llama.tokenize(text, add_bos=row["special"], special=row["special"])
                f.write(" ".join(map(str, ids)) + "\n")


def write(path, rows):
    with open(path, "w", encoding="utf-8") as f:
        for row in rows:
            f.write(json.dumps(row) + "\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("gguf", type=pathlib.Path, nargs="+")
    p.add_argument("--llama-cpp", action="store_true", help="ids of llama.cpp's tokenizer, for these files")
    p.add_argument("--out", type=pathlib.Path,
                   default=pathlib.Path(__file__).resolve().parent.parent / "tests" / "text")
    p.add_argument("--random", type=int, default=0, help="this many random texts, and every assigned character")
    p.add_argument("--seed", type=int, default=0)
    a = p.parse_args()
    if a.llama_cpp:
        return write_llama_cpp(a.out / "llama_cpp", a.gguf)

    cases = dict(CASES)
    rng = random.Random(a.seed)
    cases.update({f"random {a.seed}:{i}": random_text(rng) for i in range(a.random)})
    if a.random:
        cases.update({f"characters {i}": t for i, t in enumerate(every_character())})

    ids = []
    for parse_special in (True, False):
        tokenizer = hf_tokenizer(a.gguf[0], parse_special)
        for name, text in cases.items():
            if parse_special or "<" in text:  # the others read the same either way
                encoded = tokenizer.encode(text, add_special_tokens=False)
                ids.append({"name": name, "text": text, "parse_special": parse_special, "ids": encoded.ids})
    pieces = []
    for pre, tokenizer in PRE.items():
        for name, text in cases.items():
            if not a.random and len(text) > 200 and pre not in ("gpt-2", "smollm", "llama-bpe"):
                continue  # kept small
            spans = [span for _, span in tokenizer.pre_tokenize_str(text)]
            pieces.append({"name": name, "pre": pre, "text": text, "pieces": [text[b:e] for b, e in spans]})
    write(a.out / "smollm_ids.jsonl", ids)
    write(a.out / "pieces.jsonl", pieces)


if __name__ == "__main__":
    main()
