#!/usr/bin/env python3
"""End to end: how a server is configured, guarded, started, watched and stopped. Standard library and openssl.

    operation_test.py --pacer build/dev/pacer

Exits 77 (skipped) with a sentence when the model is not there.
"""
import concurrent.futures
import fcntl
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import sys
import tempfile
import time
import unittest

import pacer_server
from pacer_server import DEADLINE, Server, read_events
from real_models import SMOLLM2, main

SMALL = ("--kv-cache-memory", "64MiB")
MARKER = "zebra-lighthouse-4711"  # in prompts, and never in a log
CHATML = ("{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
          "<|im_start|>assistant\n")


def pacer(*arguments: str, env: dict | None = None) -> subprocess.CompletedProcess:
    return subprocess.run([pacer_server.pacer(), *arguments], capture_output=True, text=True, timeout=DEADLINE,
                          env={**os.environ, **(env or {})})


def bearer(key: str) -> dict:
    return {"Authorization": f"Bearer {key}"}


def ask(connection: http.client.HTTPConnection, method: str, path: str, body=None, headers=None):
    connection.request(method, path, json.dumps(body) if body is not None else None,
                       {"Content-Type": "application/json", **(headers or {})})
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, text, response.headers


def ask_port(port: int, method: str, path: str, body=None, headers=None):
    return ask(http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE), method, path, body, headers)


def wait_for(condition, what: str):
    end = time.monotonic() + DEADLINE
    while not (value := condition()):
        assert time.monotonic() < end, what
        time.sleep(0.02)
    return value


def completion(**more) -> dict:
    return {"prompt": f"Tell me of the {MARKER}.", "max_tokens": 4, "temperature": 0, **more}


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str):
        super().__init__("localhost", timeout=DEADLINE)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(DEADLINE)
        self.sock.connect(self.path)


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, name: str, text: str, mode: int = 0o600) -> str:
        path = self.folder / name
        path.write_text(text)
        path.chmod(mode)
        return str(path)


class Starting(Folder):
    """While a model is being loaded: its chat template is a pipe into which nobody has written yet."""

    def setUp(self):
        super().setUp()
        self.pipe = str(self.folder / "template")
        os.mkfifo(self.pipe)

    def start(self, *flags: str) -> tuple[subprocess.Popen, int]:
        log = open(self.folder / "log", "w+")
        self.addCleanup(log.close)
        process = subprocess.Popen([pacer_server.pacer(), "serve", "-m", str(SMOLLM2), "--port", "0", *SMALL,
                                    "--chat-template", self.pipe, *flags], stdout=subprocess.PIPE, stderr=log, text=True)
        self.addCleanup(lambda: (process.kill(), process.wait(), process.stdout.close()))
        found = wait_for(lambda: re.search(r"listening on \S+:(\d+)", self.log()), "it listens")
        return process, int(found[1])

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def test_it_answers_before_the_model_is_there_and_keys_hold(self):
        process, port = self.start("--api-key", "k1")
        self.assertEqual(ask_port(port, "GET", "/health")[0], 200)
        self.assertEqual(ask_port(port, "GET", "/version")[0], 200)
        status, text, headers = ask_port(port, "GET", "/ready")
        self.assertEqual((status, json.loads(text)), (503, {"status": "loading"}))
        self.assertEqual(ask_port(port, "POST", "/v1/completions", completion())[0], 401)
        status, text, headers = ask_port(port, "POST", "/v1/completions", completion(), bearer("k1"))
        self.assertEqual(status, 503, text)
        self.assertIn("Retry-After", headers)
        self.assertEqual(json.loads(text)["error"]["code"], "service_unavailable")

        with open(self.pipe, "w") as template:
            template.write(CHATML)
        wait_for(lambda: ask_port(port, "GET", "/ready")[0] == 200, "ready")
        self.assertEqual(ask_port(port, "POST", "/v1/completions", completion(), bearer("k1"))[0], 200)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(DEADLINE), 0)

    def test_sigterm_while_loading_ends_it_though_the_loading_would_never_end(self):
        for signal_number in (signal.SIGTERM, signal.SIGINT):
            process, port = self.start("--unix-socket", str(self.folder / "socket"))
            process.send_signal(signal_number)
            self.assertEqual(process.wait(DEADLINE), 0)
            self.assertIn("stopped while the model was loaded", self.log())
            self.assertFalse((self.folder / "socket").exists())

    def test_an_address_in_use_is_said_before_anything_is_loaded(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            for flag in ("--port", "--admin-port"):
                other = ("--port", "0") if flag == "--admin-port" else ()
                run = pacer("serve", "-m", str(SMOLLM2), *other, flag, str(port), "--chat-template", self.pipe)
                self.assertEqual(run.returncode, 1)
                self.assertIn(f"port {port}", run.stderr)
                self.assertIn(f"{flag} takes another", run.stderr)


class Keys(Folder):
    def test_keys_of_flags_files_and_variables(self):
        file = self.file("keys", "# ours\nfile-key\n")
        with Server("--api-key-file", file, *SMALL, env={"PACER_SERVE_API_KEY": "env-key-1, env-key-2"}) as server:
            for key in ("env-key-1", "env-key-2", "file-key"):
                self.assertEqual(server.request("GET", "/v1/models", headers=bearer(key))[0], 200, key)
            for headers in ({}, bearer("env-key-3"), bearer("env-key-1, env-key-2"), {"Authorization": "file-key"}):
                status, text, answer = server.request("POST", "/v1/completions", completion(), headers)
                self.assertEqual(status, 401, headers)
                self.assertEqual(answer["WWW-Authenticate"], "Bearer")
                self.assertEqual(json.loads(text)["error"]["code"], "invalid_api_key")
            for path in ("/health", "/ready", "/version", "/metrics"):
                self.assertEqual(server.request("GET", path)[0], 200, path)
            self.assertEqual(server.request("GET", "/nowhere")[0], 401)
            self.assertEqual(server.request("GET", "/nowhere", headers=bearer("file-key"))[0], 404)
            # Nobody who may look at processes, or reads the log, learns a key.
            for name in ("cmdline", "environ"):
                self.assertNotIn(b"-key-1", pathlib.Path(f"/proc/{server.process.pid}/{name}").read_bytes())
            self.assertNotIn("-key", server.log_text().replace("--api-key-file", ""))

    def test_a_file_that_all_can_read_is_warned_of_and_an_empty_one_refused(self):
        with Server("--api-key-file", self.file("open", "k\n", 0o644), *SMALL) as server:
            self.assertIn("chmod 600", server.log_text())
        run = pacer("serve", "-m", str(SMOLLM2), "--api-key-file", self.file("empty", "# none\n"))
        self.assertEqual(run.returncode, 1)
        self.assertIn("there is no API key in it", run.stderr)
        run = pacer("serve", "-m", str(SMOLLM2), env={"PACER_SERVE_API_KEY": ""})
        self.assertEqual(run.returncode, 1)
        self.assertIn("PACER_SERVE_API_KEY is empty", run.stderr)


class Configuration(Folder):
    def test_flag_over_variable_over_file_over_default(self):
        config = self.file("pacer.toml", f'model = "{SMOLLM2}"\nmax-queue = 1\nmax-num-seqs = 2\nport = 1\n'
                                         'api-key = ["secret-1"]\n')
        run = pacer("serve", "--config", config, "--port", "5", "--print-config",
                    env={"PACER_SERVE_MAX_QUEUE": "3", "PACER_SERVE_PORT": "4"})
        self.assertEqual(run.returncode, 0, run.stderr)
        for line in (r"port = 5 +# --port", r"max-queue = 3 +# environment variable PACER_SERVE_MAX_QUEUE",
                     rf"max-num-seqs = 2 +# {re.escape(config)}: line 3", r'host = "127.0.0.1" +# default',
                     r"# api-key: 1 given, not shown +# .*: line 5"):
            self.assertRegex(run.stdout, "(?m)^" + line + "$")
        self.assertNotIn("secret-1", run.stdout + run.stderr)

    def test_a_file_alone_is_enough(self):
        config = self.file("pacer.toml", 'served-model-name = "named"\nkv-cache-memory = "64MiB"\nlog-format = "json"\n')
        with Server("--config", config, env={"PACER_SERVE_PROT": "1"}) as server:
            self.assertEqual(json.loads(server.request("GET", "/v1/models")[1])["data"][0]["id"], "named")
            for line in server.log_text().splitlines():
                json.loads(line)
            self.assertIn("PACER_SERVE_PROT is no setting", server.log_text())

    def test_what_is_wrong_is_one_sentence_with_its_line(self):
        for text, words in (("\nmax-queu = 1", "line 2: there is no setting 'max-queu'"),
                            ("port = \"x\"", "line 1: 'port' must be a whole number"),
                            ("port = 70000", "line 1: '70000' is no value for 'port'"),
                            ("port = ", "line 1: ")):
            run = pacer("serve", "-m", str(SMOLLM2), "--config", self.file("wrong.toml", text))
            self.assertEqual(run.returncode, 1, text)
            self.assertIn(words, run.stderr)
            self.assertEqual(len(run.stderr.strip().splitlines()), 1, run.stderr)

    def test_options_md_is_printed(self):
        committed = pathlib.Path(__file__).resolve().parents[2] / "docs/options.md"
        self.assertEqual(pacer("options").stdout, committed.read_text())

    def test_a_budget_that_does_not_hold_it_all_names_the_parts(self):
        run = pacer("serve", "-m", str(SMOLLM2), "--port", "0", "--max-memory", "100MiB")
        self.assertEqual(run.returncode, 1)
        for words in ("does not fit", "of weights", "--max-num-batched-tokens", "--max-body-memory", "100.0 MiB",
                      "--max-memory"):
            self.assertIn(words, run.stderr)


class Listening(Folder):
    def serve(self, *flags: str, env: dict | None = None):
        """A server whose welcome line is not that of plain TCP."""
        process = subprocess.Popen([pacer_server.pacer(), "serve", "-m", str(SMOLLM2), *SMALL, *flags],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(lambda: (process.kill(), process.wait(), process.stdout.close()))
        return process, next(line for line in process.stdout if line.startswith("Pacer serves")).strip()

    def test_a_unix_socket_alone(self):
        path = str(self.folder / "pacer.sock")
        process, welcome = self.serve("--unix-socket", path)
        self.assertTrue(welcome.endswith(f"at unix socket {path}"), welcome)
        self.assertTrue(stat.S_ISSOCK(os.stat(path).st_mode))
        status, text, _ = ask(UnixConnection(path), "POST", "/v1/completions", completion())
        self.assertEqual(status, 200, text)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(DEADLINE), 0)
        self.assertFalse(os.path.exists(path))

    def test_tls_with_a_certificate_from_openssl(self):
        certificate, key = str(self.folder / "cert.pem"), str(self.folder / "key.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate,
                        "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
                       check=True, capture_output=True)
        process, welcome = self.serve("--port", "0", "--ssl-certfile", certificate, "--ssl-keyfile", key)
        port = int(re.search(r"at https://127\.0\.0\.1:(\d+)$", welcome)[1])
        trusting = ssl.create_default_context(cafile=certificate)
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=DEADLINE, context=trusting)
        status, text, headers = ask(connection, "POST", "/v1/completions", completion())
        self.assertEqual(status, 200, text)
        status, text, _ = ask_port(port, "GET", "/health")  # in plain
        self.assertEqual(status, 400)
        self.assertIn("https://", text)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(DEADLINE), 0)
        run = pacer("serve", "-m", str(SMOLLM2), "--port", "0", "--ssl-certfile", key, "--ssl-keyfile", key)
        self.assertEqual(run.returncode, 1)
        self.assertIn(key, run.stderr)

    def test_an_admin_port_has_the_metrics_and_the_public_one_has_not(self):
        with Server("--admin-port", "0", "--api-key", "k", *SMALL) as server:
            admin = int(re.search(r"health and metrics on http://127\.0\.0\.1:(\d+)", server.log_text())[1])
            for path in ("/health", "/ready", "/metrics", "/version"):
                self.assertEqual(ask_port(admin, "GET", path)[0], 200, path)
            self.assertEqual(ask_port(admin, "POST", "/v1/completions", completion())[0], 404)
            self.assertEqual(server.request("GET", "/metrics", headers=bearer("k"))[0], 404)
            self.assertEqual(server.request("GET", "/health")[0], 200)

    def test_pages_of_allowed_origins_may_read_and_preflights_need_no_key(self):
        with Server("--allowed-origins", "https://app.example", "--api-key", "k", *SMALL) as server:
            status, _, headers = server.request("OPTIONS", "/v1/chat/completions", headers={
                "Origin": "https://app.example", "Access-Control-Request-Method": "POST",
                "Access-Control-Request-Headers": "authorization"})
            self.assertEqual((status, headers["Access-Control-Allow-Origin"]), (204, "https://app.example"))
            status, _, headers = server.request("GET", "/v1/models", headers={"Origin": "https://app.example"})
            self.assertEqual((status, headers["Access-Control-Allow-Origin"]), (401, "https://app.example"))
            status, _, headers = server.request("GET", "/health", headers={"Origin": "https://evil.example"})
            self.assertIsNone(headers["Access-Control-Allow-Origin"])

    def test_combinations_without_a_meaning_are_one_sentence(self):
        for flags, words in ((("--ssl-certfile", "x"), "--ssl-keyfile"), (("--admin-host", "::1"), "--admin-port"),
                             (("--port", "9", "--admin-port", "9"), "both 9"),
                             (("--allowed-origins", "app.example"), "app.example"),
                             (("--unix-socket", str(SMOLLM2)), "another kind of file")):
            run = pacer("serve", "-m", str(SMOLLM2), *flags)
            self.assertEqual(run.returncode, 1, flags)
            self.assertIn(words, run.stderr)
            self.assertEqual(len(run.stderr.strip().splitlines()), 1, run.stderr)


class Logs(Folder):
    def test_a_line_a_request_and_never_what_it_says(self):
        for level in ("debug", "info"):
            with Server("--log-format", "json", "--log-level", level, "--api-key", "k0", "--api-key", "k1",
                        *SMALL) as server:
                bodies = (completion(stop=[MARKER]), completion(stream=True), completion(n=2),
                          completion(temperature=MARKER), completion(model=MARKER),
                          completion(metadata={MARKER: MARKER}))
                for i, body in enumerate(bodies):
                    server.request("POST", "/v1/completions", body, {**bearer("k1"), "X-Request-Id": f"{i}"})
                server.request("POST", "/v1/chat/completions", {
                    "messages": [{"role": "user", "content": MARKER}], "max_tokens": 3},
                    {**bearer("k0"), "X-Request-Id": "6"})
                wait_for(lambda: server.log_text().count('"request"') >= 7, "seven lines")
                lines = [json.loads(line) for line in server.log_text().splitlines()]
                self.assertNotIn(MARKER, server.log_text())
                self.assertNotIn("k1", server.log_text().replace("--api-key", ""))
            # A line is written when the answer is gone, so a later request may be before it.
            requests = sorted((line for line in lines if line["message"] == "request"), key=lambda line: line["id"])
            self.assertEqual(len(requests), 7)
            first = requests[0]
            self.assertEqual((first["id"], first["method"], first["path"], first["status"], first["key"]),
                             ("0", "POST", "/v1/completions", 200, 2))
            self.assertEqual((first["finish"], first["output_tokens"]), ("length", 4))
            self.assertGreater(first["prompt_tokens"], 4)
            self.assertLessEqual(first["queue_ms"], first["ttft_ms"])
            self.assertLessEqual(first["ttft_ms"], first["e2e_ms"])
            self.assertEqual(requests[2]["output_tokens"], 8)
            self.assertEqual([request["status"] for request in requests], [200, 200, 200, 400, 404, 200, 200])
            self.assertEqual(requests[-1]["key"], 1)

    def test_a_pipe_that_nobody_reads_stops_nothing(self):
        reader, writer = os.pipe()
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        process = subprocess.Popen([pacer_server.pacer(), "serve", "-m", str(SMOLLM2), "--port", "0", *SMALL],
                                   stdout=subprocess.PIPE, stderr=writer, text=True)
        os.close(writer)
        try:
            port = int(next(line for line in process.stdout if line.startswith("Pacer serves")).rsplit(":", 1)[1])
            for _ in range(60):  # far more lines than the pipe holds
                self.assertEqual(ask_port(port, "POST", "/v1/completions", completion(max_tokens=1))[0], 200)
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(DEADLINE), 0)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
            os.close(reader)


class Draining(Folder):
    def test_readiness_and_new_requests_are_503_while_streams_go_on(self):
        with Server("--admin-port", "0", *SMALL) as server:
            admin = int(re.search(r"health and metrics on http://127\.0\.0\.1:(\d+)", server.log_text())[1])
            connection = server.connect()
            connection.request("POST", "/v1/completions", json.dumps(
                completion(max_tokens=1000, ignore_eos=True, stream=True)))
            response = connection.getresponse()
            response.readline()
            server.process.send_signal(signal.SIGTERM)
            wait_for(lambda: ask_port(admin, "GET", "/ready")[0] == 503, "not ready")
            self.assertEqual(json.loads(ask_port(admin, "GET", "/ready")[1])["status"], "draining")
            self.assertEqual(ask_port(admin, "GET", "/health")[0], 200)
            status, text, headers = server.request("POST", "/v1/completions", completion())
            self.assertEqual((status, headers["Retry-After"]), (503, "1"), text)
            self.assertEqual(list(read_events(response))[-1], "[DONE]")
            self.assertEqual(server.process.wait(DEADLINE), 0)
            connection.close()

    def test_ready_says_how_many_run_and_wait(self):
        with Server("--max-num-seqs", "1", *SMALL) as server:
            with concurrent.futures.ThreadPoolExecutor(3) as pool:
                answers = [pool.submit(server.request, "POST", "/v1/completions",
                                       completion(max_tokens=400, ignore_eos=True)) for _ in range(3)]
                seen = []
                while not all(answer.done() for answer in answers):
                    seen.append(json.loads(server.request("GET", "/ready")[1]))
            self.assertTrue(any((ready["running"], ready["waiting"]) == (1, 2) for ready in seen), seen[:20])
            self.assertTrue(all(ready["status"] == "ready" for ready in seen))
            self.assertEqual(json.loads(server.request("GET", "/ready")[1]),
                             {"status": "ready", "last_step_age_s": 0, "running": 0, "waiting": 0})


if __name__ == "__main__":
    if shutil.which("openssl") is None:
        sys.exit("openssl is missing: apt-get install openssl")
    sys.exit(main(__doc__, pacer_server.take_pacer))
