#!/usr/bin/env python3
"""End to end: the built program serving its real model to real sockets. Standard library only.

    serve_test.py --pacer build/dev/pacer

Exits 77 (skipped) with a sentence when the model is not there.
"""
import concurrent.futures
import http.client
import json
import os
import signal
import subprocess
import sys
import time
import unittest

from pacer_server import DEADLINE, Server, pacer, read_events, stream, take_pacer
from real_models import GEMMA3, SMOLLM2, main


def chat(content: str, **more) -> dict:
    return {"messages": [{"role": "user", "content": content}], "temperature": 0, **more}


class Serving(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--max-num-seqs", "32", "--served-model-name", "smol")

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def test_a_chat_is_answered_sensibly(self):
        status, answer = self.server.post("/v1/chat/completions",
                                          chat("What is 7 + 5? Answer with the number only.", max_tokens=40))
        self.assertEqual(status, 200)
        self.assertIn("12", answer["choices"][0]["message"]["content"])
        self.assertEqual(answer["choices"][0]["finish_reason"], "stop")
        self.assertEqual(answer["model"], "smol")
        usage = answer["usage"]
        self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + usage["completion_tokens"])

    def test_a_stream_says_what_the_whole_answer_says(self):
        for path, body in [("/v1/chat/completions", chat("Name three colours.", max_tokens=48)),
                           ("/v1/completions", {"prompt": "The capital of France is", "max_tokens": 24,
                                                "temperature": 0.9, "seed": 5, "top_p": 0.9})]:
            status, whole = self.server.post(path, body)
            self.assertEqual(status, 200, whole)
            streamed = stream(self.server, path, body)
            choice = whole["choices"][0]
            self.assertEqual(streamed["text"], choice.get("text") or choice["message"]["content"])
            self.assertEqual(streamed["finish"], choice["finish_reason"])
            self.assertEqual(streamed["usage"], whole["usage"])
            self.assertTrue(streamed["done"])

    def test_32_streams_at_once_answer_as_each_does_alone(self):
        topics = ["the sea", "a mountain", "bread", "winter", "a violin", "the moon", "rain", "a train"]
        bodies = [chat(f"Write one sentence about {topics[i % 8]}, number {i}.", max_tokens=16 + i % 9,
                       temperature=0 if i % 2 else 0.8, seed=i) for i in range(32)]
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            together = list(pool.map(lambda body: stream(self.server, "/v1/chat/completions", body), bodies))
        for i, (body, answer) in enumerate(zip(bodies, together)):
            self.assertTrue(answer["done"])
            self.assertGreater(len(answer["text"].split()), 2, answer)
            if i % 4 == 0:
                self.assertEqual(answer, stream(self.server, "/v1/chat/completions", body))
        self.assertEqual(self.server.metric("vllm:num_requests_running"), 0)
        self.assertEqual(self.server.metric("vllm:kv_cache_usage_perc"), 0)

    def test_a_client_that_leaves_stops_its_work(self):
        for streaming in (True, False):
            before = self.server.metric("pacer_requests_cancelled_total")
            connection = self.server.connect()
            connection.request("POST", "/v1/completions", json.dumps(
                {"prompt": "Once upon a time", "max_tokens": 4000, "ignore_eos": True, "stream": streaming}),
                {"Content-Type": "application/json"})
            self.server.wait_for(lambda: self.server.metric("vllm:num_requests_running") == 1, "it runs")
            connection.sock.close()
            self.server.wait_for(lambda: self.server.metric("pacer_requests_cancelled_total") == before + 1, "cancelled")
            self.server.wait_for(lambda: self.server.metric("vllm:num_requests_running") == 0, "gauge back to 0")
            tokens = self.server.metric("vllm:generation_tokens_total")
            time.sleep(0.3)
            self.assertEqual(self.server.metric("vllm:generation_tokens_total"), tokens)

    def test_16_streams_that_leave_at_once_leave_nothing_behind(self):
        turn = chat("Tell me about the sea, the ships and the harbour.", max_tokens=24)
        before = self.server.post("/v1/chat/completions", turn)[1]
        cancelled = self.server.metric("pacer_requests_cancelled_total")
        connections = [self.server.connect() for _ in range(16)]
        for connection in connections:
            connection.request("POST", "/v1/chat/completions",
                               json.dumps({**turn, "max_tokens": 4000, "ignore_eos": True, "stream": True}),
                               {"Content-Type": "application/json"})
        self.server.wait_for(lambda: self.server.metric("vllm:num_requests_running") == 16, "they run")
        for connection in connections:
            connection.sock.close()
        for gauge in ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"):
            self.server.wait_for(lambda: self.server.metric(gauge) == 0, gauge)
        self.assertEqual(self.server.metric("pacer_requests_cancelled_total"), cancelled + 16)
        after = self.server.post("/v1/chat/completions", turn)[1]
        self.assertEqual((after["choices"], after["usage"]), (before["choices"], before["usage"]))

    def test_tokens_go_to_ids_and_back(self):
        text = "Grüße, 世界! 🙂\n\n\tdef f(x):  return 12345"
        status, answer = self.server.post("/tokenize", {"prompt": text})
        self.assertEqual(status, 200)
        self.assertEqual(answer["count"], len(answer["tokens"]))
        status, back = self.server.post("/detokenize", {"tokens": answer["tokens"]})
        self.assertEqual(back["prompt"], text)

    def test_logprobs_and_token_ids_come_when_asked(self):
        status, answer = self.server.post("/v1/completions", {
            "prompt": "The capital of France is", "max_tokens": 4, "temperature": 0, "logprobs": 3,
            "return_token_ids": True})
        self.assertEqual(status, 200)
        choice = answer["choices"][0]
        self.assertEqual(choice["token_ids"][0], 7042)  # " Paris"
        self.assertEqual(len(choice["logprobs"]["token_logprobs"]), 4)
        self.assertAlmostEqual(choice["logprobs"]["token_logprobs"][0], -0.258, delta=0.3)
        self.assertEqual(len(choice["logprobs"]["top_logprobs"][0]), 3)

    def test_wrong_input_is_a_4xx_that_names_the_field(self):
        for path, body, status, param in [
                ("/v1/completions", {"prompt": "x", "temperature": "hot"}, 400, "temperature"),
                ("/v1/completions", {"max_tokens": 3}, 400, "prompt"),
                ("/v1/chat/completions", {"messages": []}, 400, "messages"),
                ("/v1/completions", {"prompt": "x", "model": "gpt-4"}, 404, "model"),
                ("/v1/completions", {"prompt": "x", "max_tokens": 100000}, 400, "max_tokens")]:
            got, answer = self.server.post(path, body)
            self.assertEqual(got, status, answer)
            self.assertEqual(answer["error"]["param"], param, answer)
        self.assertEqual(self.server.request("GET", "/nowhere")[0], 404)
        self.assertEqual(self.server.request("GET", "/v1/completions")[0], 405)

    def test_lists_that_would_keep_an_io_thread_busy_are_refused(self):
        for path, body, param in [
                ("/v1/completions", {"prompt": [" " * 130000] * 60}, "prompt"),
                ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}] * 5000}, "messages"),
                ("/v1/chat/completions", chat("x", chat_template_kwargs={str(i): i for i in range(100)}),
                 "chat_template_kwargs"),
                ("/tokenize", {"prompt": "a" * (2 << 20)}, "prompt")]:
            status, answer = self.server.post(path, body)
            self.assertEqual((status, answer["error"]["param"]), (400, param), answer)

    def test_models_health_ready_and_version_answer(self):
        self.assertEqual(json.loads(self.server.request("GET", "/v1/models")[1])["data"][0]["id"], "smol")
        for path in ("/health", "/ready", "/version", "/metrics"):
            self.assertEqual(self.server.request("GET", path)[0], 200, path)


class Starting(unittest.TestCase):
    def run_pacer(self, *args: str, **env: str):
        return subprocess.run([pacer(), *args], capture_output=True, text=True, timeout=DEADLINE,
                              env={**os.environ, **env})

    def test_every_tier_can_be_forced_and_gives_the_same_greedy_answer(self):
        answers = set()
        for tier in ("scalar", "avx2"):
            run = self.run_pacer("run", "-m", str(SMOLLM2), "-p", "The capital of France is", "-n", "2",
                                 PACER_ISA=tier)
            if tier == "avx2" and "not supported" in run.stderr:
                continue
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertIn(f"{tier} kernels", run.stderr)
            answers.add(run.stdout)
        self.assertEqual(len(answers), 1, answers)
        self.assertIn("Paris", answers.pop())

    def test_a_wrong_start_is_one_clear_sentence_and_a_non_zero_exit(self):
        model = str(SMOLLM2)
        for args, env, words in [
                (("serve", "-m", "/nowhere/model.gguf"), {}, "/nowhere/model.gguf"),
                (("serve", "-m", pacer()), {}, "GGUF"),
                (("serve", "-m", model, "--kv-cache-memory", "lots"), {}, "'lots' is not a size"),
                (("serve", "-m", model, "--kv-cache-memory", "900TiB"), {}, "does not fit"),
                (("serve", "-m", model, "--kv-cache-memory", "1KiB"), {}, "holds no block"),
                (("serve", "-m", model, "--max-model-len", "100000"), {}, "8192"),
                (("run", "-m", model, "-p", "x"), {"PACER_ISA": "sse9"}, "sse9")]:
            run = self.run_pacer(*args, **env)
            self.assertNotEqual(run.returncode, 0, args)
            self.assertIn(words, run.stderr, args)
            self.assertLess(len(run.stderr.strip().splitlines()), 4, run.stderr)

    def test_a_log_whose_reader_left_does_not_take_the_server_with_it(self):
        reader, writer = os.pipe()
        process = subprocess.Popen([pacer(), "serve", "-m", str(SMOLLM2), "--port", "0", "--kv-cache-memory", "64MiB"],
                                   stdout=subprocess.PIPE, stderr=writer, text=True)
        os.close(writer)
        try:
            line = next(line for line in process.stdout if line.startswith("Pacer serves"))
            os.close(reader)
            connection = http.client.HTTPConnection("127.0.0.1", int(line.rsplit(":", 1)[1]), timeout=DEADLINE)
            connection.request("POST", "/v1/completions", json.dumps({"prompt": "a", "max_tokens": 1, "unheard_of": 1}))
            self.assertEqual(connection.getresponse().status, 200)
            connection.close()
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(DEADLINE), 0)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()

    def test_a_port_that_is_taken_is_named(self):
        with Server("--kv-cache-memory", "64MiB") as server:
            run = self.run_pacer("serve", "-m", str(SMOLLM2), "--port", str(server.port), "--kv-cache-memory", "64MiB")
            self.assertNotEqual(run.returncode, 0)
            self.assertIn(str(server.port), run.stderr)

    def test_inspect_shows_the_file_and_the_machine(self):
        run = self.run_pacer("inspect", str(SMOLLM2))
        self.assertEqual(run.returncode, 0, run.stderr)
        for words in ("general.architecture", "272 tensors", "Q4_1", "servable: 30 layers"):
            self.assertIn(words, run.stdout)
        run = self.run_pacer("inspect", "--machine")
        self.assertEqual(run.returncode, 0, run.stderr)
        for words in ("kernel tier", "read bandwidth", "int8 peak"):
            self.assertIn(words, run.stdout)


class Stopping(unittest.TestCase):
    def start_stream(self, server: Server, max_tokens: int):
        connection = server.connect()
        connection.request("POST", "/v1/completions", json.dumps(
            {"prompt": "Once upon a time", "max_tokens": max_tokens, "ignore_eos": True, "stream": True}),
            {"Content-Type": "application/json"})
        return connection, connection.getresponse()

    def test_sigterm_lets_streams_finish_and_exits_0(self):
        with Server() as server:
            connection, response = self.start_stream(server, 200)
            response.readline()
            server.process.send_signal(signal.SIGTERM)
            events = [data for data in read_events(response)]
            self.assertEqual(events[-1], "[DONE]")
            self.assertEqual(json.loads(events[-2])["choices"][0]["finish_reason"], "length")
            self.assertEqual(server.process.wait(DEADLINE), 0)
            connection.close()

    def test_a_second_signal_ends_streams_with_an_error_event(self):
        with Server() as server:
            connection, response = self.start_stream(server, 8000)
            response.readline()
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
            self.assertIsNone(server.process.poll(), "it drains")
            server.process.send_signal(signal.SIGTERM)
            events = [data for data in read_events(response)]
            self.assertEqual(events[-1], "[DONE]")
            self.assertIn("error", json.loads(events[-2]))
            self.assertEqual(server.process.wait(DEADLINE), 0)
            connection.close()

    def test_at_the_end_of_the_grace_what_runs_and_what_waits_ends_with_an_error(self):
        with Server("--max-num-seqs", "3", "--shutdown-timeout", "3") as server:
            streams = [self.start_stream(server, 8000) for _ in range(3)]
            waiting = [server.connect() for _ in range(3)]
            for i, connection in enumerate(waiting):
                connection.request("POST", "/v1/completions", json.dumps(
                    {"prompt": "x", "max_tokens": 8000, "ignore_eos": True, "stream": i == 0}))
            server.wait_for(lambda: server.metric("vllm:num_requests_waiting") == 3, "three wait")
            server.process.send_signal(signal.SIGTERM)
            server.wait_for(lambda: server.request("GET", "/ready")[0] == 503, "not ready")
            status, text, headers = server.request("POST", "/v1/completions", {"prompt": "x"})
            self.assertEqual((status, json.loads(text)["error"]["code"]), (503, "service_unavailable"))
            self.assertIn("Retry-After", headers)
            for _, response in streams:
                events = list(read_events(response))
                self.assertEqual(events[-1], "[DONE]")
                self.assertEqual(json.loads(events[-2])["error"]["code"], "service_unavailable")
            for connection in waiting:
                response = connection.getresponse()
                self.assertEqual(response.status, 503)
                self.assertEqual(json.loads(response.read())["error"]["code"], "service_unavailable")
            self.assertEqual(server.process.wait(DEADLINE), 0)
            for connection in [connection for connection, _ in streams] + waiting:
                connection.close()

    def test_a_full_queue_is_429_with_retry_after_and_everyone_gets_an_answer(self):
        with Server("--max-num-seqs", "2", "--max-queue", "3") as server:
            body = {"prompt": "Count:", "max_tokens": 60, "ignore_eos": True}
            with concurrent.futures.ThreadPoolExecutor(40) as pool:
                answers = list(pool.map(lambda _: server.request("POST", "/v1/completions", body), range(40)))
            statuses = [status for status, _, _ in answers]
            self.assertEqual(set(statuses), {200, 429})
            self.assertGreaterEqual(statuses.count(200), 5)
            for status, text, headers in answers:
                if status == 429:
                    self.assertIn("Retry-After", headers)
                    self.assertIn("error", json.loads(text))
            self.assertEqual(server.metric("pacer_requests_rejected_total"), statuses.count(429))
            self.assertEqual(len(answers), 40)

    def test_requests_that_outgrow_a_small_pool_all_finish_as_alone(self):
        # A pool of 1,024 tokens; four requests that each grow to about 600.
        with Server("--kv-cache-memory", str(64 * 368640)) as server:
            bodies = [{"prompt": f"{i} " + "la " * 100, "max_tokens": 440, "ignore_eos": True, "temperature": 0}
                      for i in range(4)]
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                together = list(pool.map(lambda body: stream(server, "/v1/completions", body), bodies))
            self.assertGreaterEqual(server.metric("vllm:num_preemptions_total"), 1)
            self.assertLessEqual(server.metric("vllm:num_preemptions_total"), 12)
            for answer in together:
                self.assertEqual(answer["usage"]["completion_tokens"], 440)
            self.assertEqual(together[3], stream(server, "/v1/completions", bodies[3]))


class SlidingWindow(unittest.TestCase):
    def test_streams_longer_than_the_window_are_as_alone(self):
        # Gemma 3 sees 512 tokens in most layers; these prompts have about 900, and start differently.
        with Server(model=GEMMA3) as server:
            bodies = [{"prompt": f"{i}. " + "The cat sat on the mat, and the dog lay by the door. " * 60,
                       "max_tokens": 12, "ignore_eos": True, "temperature": 0} for i in range(4)]
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                together = list(pool.map(lambda body: stream(server, "/v1/completions", body), bodies))
            self.assertGreater(together[0]["usage"]["prompt_tokens"], 700)
            for body, answer in zip(bodies, together):
                self.assertEqual(answer, stream(server, "/v1/completions", body))


if __name__ == "__main__":
    sys.exit(main(__doc__, take_pacer))
