"""What the end-to-end tests share: where the real models are, and how a test program ends without them."""
import argparse
import os
import pathlib
import sys
import unittest


def folder() -> pathlib.Path:
    """That of `pacer pull`."""
    home = os.environ.get("PACER_HOME") or str(pathlib.Path.home() / ".cache/pacer")
    return pathlib.Path(os.environ.get("PACER_MODELS") or home + "/models")


SMOLLM2 = folder() / "SmolLM2-135M-Instruct.Q4_1.gguf"
GEMMA3 = folder() / "gemma-3-270m-q4_k_m.gguf"


def main(doc: str, take_pacer, models=(SMOLLM2, GEMMA3)) -> int:
    """Runs the tests of the calling program with --pacer; 77 (skipped) with a sentence when a model is not there."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--pacer", required=True)
    args, rest = parser.parse_known_args()
    take_pacer(str(pathlib.Path(args.pacer).resolve()))
    for model in models:
        if not model.exists():
            print(f"skipped: no model at {model}; `pacer pull` fetches it")
            return 1 if os.environ.get("PACER_REQUIRE_MODEL") else 77
    program = unittest.main(argv=[sys.argv[0], *rest], verbosity=2, exit=False)
    return 0 if program.result.wasSuccessful() else 1
