"""A `pacer serve` under test, and how to talk to it with the standard library: shared by the end-to-end tests."""
import http.client
import json
import os
import pathlib
import re
import subprocess
import tempfile
import time

from real_models import SMOLLM2

DEADLINE = 120  # seconds: generous, a bound on hanging and never a measure of speed
_pacer = ""


def take_pacer(path: str):
    global _pacer
    _pacer = path


def pacer() -> str:
    """The program under test."""
    return _pacer


class Server:
    def __init__(self, *flags: str, env: dict | None = None, model: pathlib.Path = SMOLLM2):
        self.log = tempfile.TemporaryFile("w+")  # a pipe that nobody reads would fill up
        self.process = subprocess.Popen([_pacer, "serve", "-m", str(model), "--port", "0", *flags],
                                        stdout=subprocess.PIPE, stderr=self.log, text=True,
                                        env={**os.environ, **(env or {})})
        self.port = 0
        for line in self.process.stdout:
            if match := re.match(r"Pacer serves .* at http://127\.0\.0\.1:(\d+)$", line.strip()):
                self.port = int(match[1])
                break
        if not self.port:
            self.process.wait()
            raise RuntimeError(self.log_text())

    def log_text(self) -> str:
        self.log.seek(0)
        return self.log.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.log.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)

    def request(self, method: str, path: str, body: dict | None = None, headers: dict | None = None):
        connection = self.connect()
        data = json.dumps(body) if body is not None else None
        connection.request(method, path, data,
                           {**({"Content-Type": "application/json"} if data else {}), **(headers or {})})
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        return response.status, text, response.headers

    def post(self, path: str, body: dict):
        status, text, _ = self.request("POST", path, body)
        return status, json.loads(text)

    def metric(self, name: str) -> float:
        text = self.request("GET", "/metrics")[1]
        values = [float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
                  if re.match(re.escape(name) + r"[{ ]", line)]
        assert values, f"no metric {name}"
        return sum(values)

    def wait_for(self, condition, what: str):
        end = time.monotonic() + DEADLINE
        while not condition():
            assert time.monotonic() < end, what
            time.sleep(0.02)


def read_events(response):
    """The data of each SSE event; fails on anything that is no event, comment or blank line."""
    for raw in response:
        line = raw.decode().rstrip("\n")
        if line.startswith("data: "):
            yield line[6:]
        elif line and not line.startswith(":"):
            raise AssertionError(f"not SSE: {line!r}")


def stream(server: Server, path: str, body: dict) -> dict:
    connection = server.connect()
    connection.request("POST", path, json.dumps({**body, "stream": True, "stream_options": {"include_usage": True}}),
                       {"Content-Type": "application/json"})
    response = connection.getresponse()
    assert response.status == 200, response.read()
    result = {"text": "", "finish": None, "usage": None, "done": False}
    for data in read_events(response):
        assert not result["done"], "an event after [DONE]"
        if data == "[DONE]":
            result["done"] = True
            continue
        event = json.loads(data)
        assert "error" not in event, event
        result["usage"] = event.get("usage") or result["usage"]
        for choice in event["choices"]:
            result["text"] += choice.get("text") or choice.get("delta", {}).get("content") or ""
            result["finish"] = choice["finish_reason"] or result["finish"]
    connection.close()
    return result
