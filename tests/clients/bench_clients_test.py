#!/usr/bin/env python3
"""guidellm and aiperf against the built program: no request fails, and what they measure agrees with our /metrics.

    bench_clients_test.py --pacer build/release/pacer     (./test.sh --clients)

Installs both on first use, each in a folder of its own (guidellm brings torch: 6 GB in all). Minutes; not in CI.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from clients import HERE

from pacer_server import Server, take_pacer
from real_models import SMOLLM2, main

REQUESTS, AT_ONCE, TOKENS = 24, 4, 24

# A tokenizer for what they insist on having one for: tokens are bytes. The tokens that count are counted by the server.
MAKE_TOKENIZER = """
import sys
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
tokenizer = Tokenizer(models.BPE(vocab={symbol: i for i, symbol in enumerate(symbols)}, merges=[]))
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(sys.argv[1])
"""


class Client:
    """An installed one, run by its Python with a working folder that goes away."""

    def __init__(self, requirement: str):
        where = subprocess.run([HERE / "install.sh", "--bench", requirement], check=True, stdout=subprocess.PIPE,
                               text=True).stdout.strip()
        self.env = {**os.environ, "PYTHONPATH": where + "/python", "HF_HUB_DISABLE_TELEMETRY": "1"}
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)

    def python(self, code: str, *args: str):
        run = subprocess.run([sys.executable, "-c", code, *args], env=self.env, cwd=self.path, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=1200)
        assert run.returncode == 0, run.stdout[-4000:]


class BenchClients(unittest.TestCase):
    def setUp(self):
        self.server = Server("--served-model-name", "smol")
        self.addCleanup(self.server.__exit__)

    def client(self, requirement: str) -> Client:
        client = Client(requirement)
        self.addCleanup(client.folder.cleanup)
        return client

    def ours(self) -> dict:
        def mean_ms(name):
            return 1000 * self.server.metric(name + "_sum") / self.server.metric(name + "_count")
        return {"requests": self.server.metric("vllm:time_to_first_token_seconds_count"),
                "tokens": self.server.metric("vllm:generation_tokens_total"),
                "ttft_ms": mean_ms("vllm:time_to_first_token_seconds"),
                "itl_ms": mean_ms("vllm:inter_token_latency_seconds")}

    def expect_agreement(self, name: str, theirs: dict):
        ours = self.ours()
        print(f"\n{name}: {theirs}\n{'/metrics':>{len(name)}}: {ours}")
        self.assertEqual((theirs["requests"], theirs["tokens"]), (ours["requests"], ours["tokens"]))
        self.assertEqual(ours["tokens"], REQUESTS * TOKENS)
        # The client is on the same two cores, and its clock starts before ours.
        self.assertAlmostEqual(theirs["ttft_ms"], ours["ttft_ms"], delta=max(50, 0.2 * ours["ttft_ms"]))
        self.assertAlmostEqual(theirs["itl_ms"], ours["itl_ms"], delta=max(5, 0.1 * ours["itl_ms"]))
        self.assertEqual(self.server.metric("vllm:num_requests_running"), 0)

    def test_guidellm(self):
        client = self.client("guidellm==0.8.1")
        prompts = [{"prompt": f"{i}. Tell me about the sea, the ships and the harbour.", "output_tokens_count": TOKENS}
                   for i in range(REQUESTS)]
        (client.path / "prompts.jsonl").write_text("".join(json.dumps(prompt) + "\n" for prompt in prompts))
        client.python("from guidellm.__main__ import cli; cli()", "run",
                      "--backend", f"kind=openai_http,target={self.server.url},model=smol",
                      "--profile", f"kind=concurrent,streams={AT_ONCE}",
                      "--constraint", f"kind=max_requests,count={REQUESTS}",
                      "--data", "kind=json_file,path=prompts.jsonl", "--output", "kind=json,path=out.json",
                      "--disable-console")
        metrics = json.loads((client.path / "out.json").read_text())["benchmarks"][0]["metrics"]
        totals = metrics["request_totals"]
        self.assertEqual((totals["errored"], totals["incomplete"]), (0, 0))
        self.expect_agreement("guidellm", {
            "requests": totals["successful"],
            "tokens": metrics["output_token_count"]["successful"]["total_sum"],
            "ttft_ms": metrics["time_to_first_token_ms"]["successful"]["mean"],
            "itl_ms": metrics["inter_token_latency_ms"]["successful"]["mean"]})

    def test_aiperf(self):
        client = self.client("aiperf==0.13.0")
        client.python(MAKE_TOKENIZER, "tokenizer")
        client.python("import runpy, sys; sys.argv[0] = 'aiperf'; runpy.run_module('aiperf', run_name='__main__')",
                      "profile", "--model", "smol", "--url", self.server.url, "--endpoint-type", "chat", "--streaming",
                      "--tokenizer", str(client.path / "tokenizer"), "--use-server-token-count",
                      "--concurrency", str(AT_ONCE), "--request-count", str(REQUESTS), "--isl", "240",
                      "--osl", str(TOKENS), "--extra-inputs", "ignore_eos:true", "--random-seed", "1",
                      "--output-artifact-dir", "out", "--ui", "none")
        result = json.loads((client.path / "out/profile_export_aiperf.json").read_text())
        self.assertEqual(result["request_error_rate"]["avg"], 0)
        self.expect_agreement("aiperf", {
            "requests": result["request_count"]["avg"], "tokens": result["total_output_tokens"]["avg"],
            "ttft_ms": result["time_to_first_token"]["avg"], "itl_ms": result["inter_token_latency"]["avg"]})


if __name__ == "__main__":
    sys.exit(main(__doc__, take_pacer, [SMOLLM2]))
