#!/usr/bin/env python3
"""curl against the built program and its real model, by TCP, TLS and unix socket, as people and scripts use it.

    curl_test.py --pacer build/dev/pacer

Exits 77 (skipped) with a sentence when the model is not there.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import clients  # noqa: F401  (the path to the server under test)

from pacer_server import DEADLINE, pacer, take_pacer
from real_models import SMOLLM2, main

ASK = {"prompt": "The capital of France is", "max_tokens": 4, "temperature": 0}


def curl(*args: str):
    """Exit code and what it printed."""
    run = subprocess.run(["curl", "--silent", "--show-error", "--max-time", str(DEADLINE), *args], capture_output=True,
                         text=True)
    return run.returncode, run.stdout + run.stderr


class Curl(unittest.TestCase):
    """One server with a key, TLS and a unix socket; plain TCP is what all other tests use."""

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        folder = pathlib.Path(cls.directory.name)
        cls.certificate, cls.socket = str(folder / "cert.pem"), str(folder / "pacer.sock")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", folder / "key.pem", "-out",
                        cls.certificate, "-days", "2", "-subj", "/CN=localhost", "-addext",
                        "subjectAltName=DNS:localhost"], check=True, capture_output=True)
        cls.process = subprocess.Popen(
            [pacer(), "serve", "-m", str(SMOLLM2), "--port", "0", "--kv-cache-memory", "64MiB", "--api-key", "right",
             "--unix-socket", cls.socket, "--ssl-certfile", cls.certificate, "--ssl-keyfile", str(folder / "key.pem")],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        welcome = next(line for line in cls.process.stdout if line.startswith("Pacer serves"))
        cls.url = "https://localhost:" + re.search(r"https://127\.0\.0\.1:(\d+)", welcome)[1]

    @classmethod
    def tearDownClass(cls):
        cls.process.kill()
        cls.process.wait()
        cls.process.stdout.close()
        cls.directory.cleanup()

    def post(self, *args: str, path: str = "/v1/completions", key: str = "right", **more):
        return curl("--cacert", self.certificate, "--oauth2-bearer", key, "--header", "Content-Type: application/json",
                    "--data", json.dumps({**ASK, **more}), *args, self.url + path)

    def test_an_answer_by_tls(self):
        code, text = self.post()
        self.assertEqual(code, 0, text)
        self.assertTrue(json.loads(text)["choices"][0]["text"].startswith(" Paris"))

    def test_a_certificate_that_it_does_not_know_ends_it(self):
        self.assertEqual(curl(self.url + "/health")[0], 60)

    def test_the_same_answer_by_the_unix_socket(self):
        code, text = curl("--unix-socket", self.socket, "--oauth2-bearer", "right", "--json", json.dumps(ASK),
                          "http://localhost/v1/completions")
        self.assertEqual(code, 0, text)
        self.assertEqual(json.loads(text)["choices"], json.loads(self.post()[1])["choices"])

    def test_a_stream_unbuffered_and_by_http_1_0(self):
        for flags in (("--no-buffer",), ("--http1.0",), ("--compressed",), ("--http2",)):
            code, text = self.post(*flags, stream=True)
            self.assertEqual(code, 0, text)
            self.assertTrue(text.endswith("data: [DONE]\n\n"), text)

    def test_an_error_is_an_exit_code_for_a_script(self):
        code, text = self.post("--fail-with-body", temperature=7)
        self.assertEqual(code, 22)
        self.assertIn('"param":"temperature"', text)
        code, text = self.post("--fail", key="wrong")
        self.assertEqual(code, 22)
        self.assertIn("401", text)

    def test_a_large_body_waits_for_100_continue_and_two_requests_share_a_connection(self):
        large = pathlib.Path(self.directory.name) / "large.json"
        large.write_text(json.dumps({"tokens": [1] * 400_000}))
        code, text = curl("--cacert", self.certificate, "--oauth2-bearer", "right", "--verbose", "--output", "/dev/null",
                          "--data-binary", f"@{large}", self.url + "/detokenize",
                          "--next", "--cacert", self.certificate, "--silent", "--verbose", self.url + "/health")
        self.assertEqual(code, 0, text[-2000:])
        self.assertIn("Expect: 100-continue", text)
        self.assertIn("HTTP/1.1 100", text)
        self.assertEqual(text.count("HTTP/1.1 200"), 2, text[-2000:])
        self.assertIn("Re-using existing connection", text)


if __name__ == "__main__":
    sys.exit(main(__doc__, take_pacer, [SMOLLM2]))
