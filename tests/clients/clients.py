"""What the tests with real clients share: where the clients are, and how a test program ends without them."""
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))  # the server under test


def folder() -> pathlib.Path:
    """Where install.sh puts the OpenAI SDKs."""
    return pathlib.Path(subprocess.run([HERE / "install.sh", "--where"], check=True, capture_output=True,
                                       text=True).stdout.strip())


def exit_without_clients():
    """77 (skipped) with a sentence where they are not installed; a failure where test.sh has installed them."""
    if not (folder() / "complete").exists():
        print("skipped: no OpenAI SDKs; tests/clients/install.sh installs them")
        sys.exit(1 if os.environ.get("PACER_REQUIRE_CLIENTS") else 77)
