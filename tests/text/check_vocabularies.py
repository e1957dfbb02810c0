#!/usr/bin/env python3
"""Compares `pacer tokenize` with llama.cpp's ids, for every vocabulary that llama.cpp ships with its sources.

  tests/text/check_vocabularies.py --pacer build/dev/pacer --download       # fetches the sdist of llama-cpp-python (77 MB)
  tests/text/check_vocabularies.py --pacer build/dev/pacer --sdist llama_cpp_python-0.3.36.tar.gz
  PACER_VOCABS=DIR tests/text/check_vocabularies.py --pacer build/dev/pacer  # DIR has ggml-vocab-*.gguf

The references: the .inp and .out files beside the vocabularies, and tests/text/llama_cpp (made by
tools/make_token_fixture.py). ctest runs this as text_vocabularies; without the vocabularies, which are large, it says so and exits with 77. Of some of
them a part is committed and tested always (cut_vocabulary.py).
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile

FIXTURES = pathlib.Path(__file__).resolve().parent / "llama_cpp"
SEPARATOR = "\n__ggml_vocab_test__\n"


def unpack(sdist, folder):
    with tarfile.open(sdist) as archive:
        for member in archive:
            name = pathlib.PurePosixPath(member.name).name
            if member.isfile() and name.startswith("ggml-vocab-"):
                (folder / name).write_bytes(archive.extractfile(member).read())
    return folder


def download(folder):
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:",
                    "--dest", str(folder), "llama-cpp-python"], check=True)
    return next(folder.glob("llama_cpp_python-*.tar.gz"))


class Pacer:
    def __init__(self, program, model):
        self.command = [program, "--log-level", "error", "tokenize", "-m", str(model)]

    def run(self, *arguments, text):
        done = subprocess.run([*self.command, *arguments], input=text, capture_output=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.decode().strip())
        return done.stdout.decode()

    def ids_of_texts(self, texts, special):
        lines = "".join(json.dumps(t) + "\n" for t in texts).encode()
        out = self.run("--jsonl", *([] if special else ["--no-special"]), text=lines)
        return [json.loads(line) for line in out.splitlines()]

    def ids_of_bytes(self, data):
        return [int(i) for i in self.run("--no-special", text=data).split()]


def cases_beside(model):
    """(name, text, special, ids) of NAME.gguf.inp and NAME.gguf.out."""
    texts_file = model.with_name(model.name + ".inp")
    if not texts_file.exists():
        return []
    texts = texts_file.read_bytes().decode().split(SEPARATOR)
    ids = model.with_name(model.name + ".out").read_text().split("\n")
    return [(f"{texts_file.name} {i}", t, False, [int(x) for x in line.split()])
            for i, (t, line) in enumerate(zip(texts, ids))]


def cases_committed(model):
    ids_file = FIXTURES / (model.stem.removeprefix("ggml-vocab-") + ".ids")
    if not ids_file.exists():
        return []
    rows = [json.loads(line) for line in (FIXTURES / "texts.jsonl").read_text().splitlines()]
    ids = ids_file.read_text().split("\n")
    return [(row["name"], bytes.fromhex(row["hex"]) if "hex" in row else row["text"], row["special"],
             [int(x) for x in line.split()]) for row, line in zip(rows, ids)]


def check(pacer, cases):
    """The cases that differ, as (name, wanted, got)."""
    pacer.ids_of_texts([""], special=False)  # refused even where there is nothing to compare with
    got = {}
    for special in (False, True):
        texts = [c for c in cases if isinstance(c[1], str) and c[2] == special]
        answers = pacer.ids_of_texts([c[1] for c in texts], special) if texts else []
        got.update({id(c): ids for c, ids in zip(texts, answers, strict=True)})
    for case in cases:
        if isinstance(case[1], bytes):
            got[id(case)] = pacer.ids_of_bytes(case[1])
    return [(c[0], c[3], got[id(c)]) for c in cases if got[id(c)] != c[3]]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--pacer", default="build/dev/pacer")
    p.add_argument("--sdist", type=pathlib.Path)
    p.add_argument("--download", action="store_true")
    a = p.parse_args()

    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(os.environ.get("PACER_VOCABS", temporary))
        if a.download or a.sdist:
            folder = pathlib.Path(temporary)
            unpack(a.sdist or download(folder), folder)
        models = sorted(folder.glob("ggml-vocab-*.gguf"))
        if not models:
            print("skipped: no ggml-vocab-*.gguf; set PACER_VOCABS, or give --sdist or --download")
            return 77
        failures = 0
        for model in models:
            cases = cases_beside(model) + cases_committed(model)
            try:
                wrong = check(Pacer(a.pacer, model), cases)
            except RuntimeError as refusal:
                # What we do not do yet is refused by name; anything else is a failure.
                failures += "tokenizer model" not in str(refusal)
                print(f"{model.name:36} {refusal}")
                continue
            failures += len(wrong)
            print(f"{model.name:36} {len(cases) - len(wrong)} of {len(cases)} texts equal")
            for name, wanted, got in wrong[:5]:
                print(f"    {name}\n      wanted {wanted[:40]}\n      got    {got[:40]}")
    print("all equal" if failures == 0 else f"{failures} differ")
    return 0 if failures == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
