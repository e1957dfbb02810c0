#!/usr/bin/env python3
"""End to end: what the commands that need no server print, and how they refuse. Standard library only.

    commands_test.py --pacer build/dev/pacer

Exits 77 (skipped) with a sentence when the model is not there.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

PACER = ""
ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXT = ROOT / "tests/golden/shakespeare_60k.txt"


def models() -> pathlib.Path:
    home = os.environ.get("PACER_HOME") or str(pathlib.Path.home() / ".cache/pacer")
    return pathlib.Path(os.environ.get("PACER_MODELS") or home + "/models")


SMOLLM2 = models() / "SmolLM2-135M-Instruct.Q4_1.gguf"
GEMMA3 = models() / "gemma-3-270m-q4_k_m.gguf"


def run(*arguments, stdin: bytes = b"", env: dict | None = None) -> subprocess.CompletedProcess:
    return subprocess.run([PACER, *map(str, arguments)], input=stdin, capture_output=True,
                          env={**os.environ, **(env or {})}, timeout=600)


class Case(unittest.TestCase):
    def output(self, *arguments, **options) -> str:
        done = run(*arguments, **options)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return done.stdout.decode()

    def refusal(self, *arguments, **options) -> str:
        """The one sentence of a command that says no: nothing on stdout, exit code 1."""
        done = run(*arguments, **options)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual(done.stdout, b"")
        lines = [line for line in done.stderr.decode().splitlines() if " error " in line]
        self.assertEqual(len(lines), 1, done.stderr.decode())
        return lines[0]


class Eval(Case):
    def perplexity(self, *arguments, **options) -> float:
        line = self.output("eval", *arguments, **options)
        self.assertRegex(line, r"^perplexity [\d.]+ \+- [\d.]+ over \d+ tokens \(.*\)\n$")
        return float(line.split()[1])

    def test_a_model_without_bos_does_not_score_the_first_token_of_a_window(self):
        line = self.output("eval", "-m", SMOLLM2, "-f", TEXT, "--windows", 2, "--window", 100)
        self.assertIn(" over 198 tokens (2 windows of 100 tokens, ", line)

    def test_a_model_with_bos_gets_one_before_each_window(self):
        line = self.output("eval", "-m", GEMMA3, "-f", TEXT, "--windows", 2, "--window", 100)
        self.assertIn(" over 200 tokens (2 windows of 100 tokens after a BOS, ", line)

    def test_every_tier_agrees_within_half_a_percent(self):
        tiers = re.search(r"this machine runs: (.*)\)", self.output("inspect", "--machine"))[1].split(", ")
        self.assertIn("scalar", tiers)
        figures = {tier: self.perplexity("-m", SMOLLM2, "-f", TEXT, "--windows", 2, env={"PACER_ISA": tier})
                   for tier in tiers}
        for tier, value in figures.items():
            self.assertAlmostEqual(value, figures["scalar"], delta=0.005 * figures["scalar"], msg=tier)

    def test_a_short_text_from_stdin_is_one_window(self):
        line = self.output("eval", "-m", SMOLLM2, stdin=b"To be, or not to be, that is the question")
        self.assertIn("(1 windows of 12 tokens, ", line)

    def test_refusals_say_what_is_wrong(self):
        self.assertIn("-: 0 tokens are too few", self.refusal("eval", "-m", SMOLLM2))
        self.assertIn("cannot open /no/such", self.refusal("eval", "-m", SMOLLM2, "-f", "/no/such"))
        self.assertIn("windows of 9000 tokens are beyond the 8192",
                      self.refusal("eval", "-m", SMOLLM2, "-f", TEXT, "--window", 9000))


class Inspect(Case):
    def test_both_models_are_servable(self):
        for model in (SMOLLM2, GEMMA3):
            self.assertRegex(self.output("inspect", model), r"\nservable: \d+ layers")


def main() -> int:
    global PACER
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pacer", required=True)
    args, rest = parser.parse_known_args()
    PACER = str(pathlib.Path(args.pacer).resolve())
    for model in (SMOLLM2, GEMMA3):
        if not model.exists():
            print(f"skipped: no model at {model}; `pacer pull` fetches it")
            return 1 if os.environ.get("PACER_REQUIRE_MODEL") else 77
    program = unittest.main(argv=[sys.argv[0], *rest], verbosity=2, exit=False)
    return 0 if program.result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
