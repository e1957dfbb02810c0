#!/usr/bin/env python3
"""The official OpenAI Python SDK against the built program and its real model.

    python_sdk_test.py --pacer build/dev/pacer

Exits 77 (skipped) with a sentence when the model or the SDK (install.sh) is not there.
"""
import asyncio
import signal
import sys
import threading
import time
import unittest

from clients import exit_without_clients, folder

exit_without_clients()
sys.path.insert(0, str(folder() / "python"))
import openai  # noqa: E402

from pacer_server import DEADLINE, Server, take_pacer  # noqa: E402
from real_models import SMOLLM2, main  # noqa: E402

COUNT = [{"role": "user", "content": "What is 7 + 5? Answer with the number only."}]
ENDLESS = {"prompt": "Once upon a time", "max_tokens": 4000, "extra_body": {"ignore_eos": True}}


def client_of(server: Server, **options) -> openai.OpenAI:
    return openai.OpenAI(base_url=server.url + "/v1",
                         **{"api_key": "none", "max_retries": 0, "timeout": DEADLINE, **options})


class SdkCase(unittest.TestCase):
    """One server for all tests of a class."""
    flags = ("--max-num-seqs", "16", "--served-model-name", "smol")

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.flags)
        cls.client = client_of(cls.server)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.__exit__()

    def expect_idle_again(self):
        self.server.wait_for(lambda: self.server.metric("vllm:num_requests_running") == 0, "gauge back to 0")


class Answers(SdkCase):
    def chat(self, **more):
        return self.client.chat.completions.create(model="smol", messages=COUNT, temperature=0, **more)

    def complete(self, prompt, **more):
        return self.client.completions.create(model="smol", prompt=prompt, temperature=0, **more)

    def test_a_chat(self):
        answer = self.chat(max_completion_tokens=40)
        self.assertIn("12", answer.choices[0].message.content)
        self.assertEqual((answer.object, answer.choices[0].finish_reason), ("chat.completion", "stop"))
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens)

    def test_a_streamed_chat_says_the_same_and_its_usage_comes_last(self):
        whole = self.chat(max_tokens=40)
        chunks = list(self.chat(max_tokens=40, stream=True, stream_options={"include_usage": True}))
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        self.assertEqual("".join(c.choices[0].delta.content or "" for c in chunks if c.choices),
                         whole.choices[0].message.content)
        self.assertEqual(chunks[-2].choices[0].finish_reason, "stop")
        self.assertEqual((chunks[-1].choices, chunks[-1].usage), ([], whole.usage))

    def test_the_streaming_helper_of_the_sdk_puts_the_same_together(self):
        with self.client.chat.completions.stream(model="smol", messages=COUNT, temperature=0, max_tokens=40) as stream:
            kinds = {event.type for event in stream}
            final = stream.get_final_completion()
        self.assertLessEqual({"chunk", "content.delta", "content.done"}, kinds)
        self.assertEqual(final.choices[0].message.content, self.chat(max_tokens=40).choices[0].message.content)

    def test_log_probabilities_streamed_and_not(self):
        whole = self.chat(max_tokens=4, logprobs=True, top_logprobs=3).choices[0].logprobs.content
        self.assertEqual([len(entry.top_logprobs) for entry in whole], [3] * len(whole))
        self.assertEqual(whole[0].token, whole[0].top_logprobs[0].token)
        streamed = [entry for chunk in self.chat(max_tokens=4, logprobs=True, top_logprobs=3, stream=True)
                    for choice in chunk.choices if choice.logprobs for entry in choice.logprobs.content]
        self.assertEqual(streamed, whole)

    def test_a_completion_and_its_stream(self):
        whole = self.complete("The capital of France is", max_tokens=8, logprobs=2)
        self.assertTrue(whole.choices[0].text.startswith(" Paris"))
        self.assertEqual(len(whole.choices[0].logprobs.tokens), 8)
        self.assertEqual(whole.choices[0].finish_reason, "length")
        chunks = list(self.complete("The capital of France is", max_tokens=8, stream=True))
        self.assertEqual("".join(chunk.choices[0].text for chunk in chunks), whole.choices[0].text)

    def test_several_prompts_of_text_or_of_ids_and_several_choices(self):
        answer = self.complete(["The capital of France is", "Two plus two is"], n=2, max_tokens=4)
        texts = [choice.text for choice in answer.choices]
        self.assertEqual([choice.index for choice in answer.choices], [0, 1, 2, 3])
        self.assertEqual((texts[0], texts[2]), (texts[1], texts[3]))
        self.assertNotEqual(texts[0], texts[2])
        tokenized = self.server.post("/tokenize", {"prompt": "The capital of France is"})[1]["tokens"]
        for prompt in (tokenized, [tokenized]):
            self.assertEqual(self.complete(prompt, max_tokens=4).choices[0].text, texts[0])

    def test_a_stop_string_ends_the_answer_before_it(self):
        whole = self.complete("Count: one two three four", max_tokens=16).choices[0].text
        stop = whole.split()[2]
        for stream in (False, True):
            answer = self.complete("Count: one two three four", max_tokens=16, stop=[stop], stream=stream)
            choices = [chunk.choices[0] for chunk in answer] if stream else answer.choices
            self.assertEqual("".join(choice.text for choice in choices), whole[:whole.index(stop)])
            self.assertEqual(choices[-1].finish_reason, "stop")

    def test_a_seed_repeats_an_answer_and_another_does_not(self):
        def say(seed):
            return self.client.completions.create(model="smol", prompt="Once", seed=seed, max_tokens=24).choices[0].text
        self.assertEqual(say(1), say(1))
        self.assertNotEqual(say(1), say(2))

    def test_fields_of_vllm_go_in_by_extra_body(self):
        answer = self.complete("The capital of France is", max_tokens=3, extra_body={
            "ignore_eos": True, "top_k": 5, "min_p": 0.0, "return_token_ids": True, "add_special_tokens": False})
        self.assertEqual(len(answer.choices[0].model_extra["token_ids"]), 3)
        chunks = self.complete("The", max_tokens=3, stream=True, stream_options={
            "include_usage": True, "continuous_usage_stats": True})
        self.assertEqual(max(chunk.usage.completion_tokens for chunk in chunks), 3)

    def test_the_list_of_models_and_one_of_them(self):
        self.assertEqual([model.id for model in self.client.models.list()], ["smol"])
        self.assertEqual(self.client.models.retrieve("smol").object, "model")
        with self.assertRaises(openai.NotFoundError):
            self.client.models.retrieve("gpt-4")

    def test_the_raw_response_has_a_request_id(self):
        raw = self.client.chat.completions.with_raw_response.create(
            model="smol", messages=COUNT, max_tokens=1, extra_headers={"X-Request-Id": "req-from-test"})
        self.assertEqual(raw.headers["content-type"], "application/json")
        self.assertEqual(raw.headers["x-request-id"], "req-from-test")
        self.assertEqual(raw.parse().object, "chat.completion")
        self.assertTrue(self.chat(max_tokens=1)._request_id)  # made by the server

    def test_16_at_once_by_the_asynchronous_client(self):
        async def one(client, i):
            stream = await client.chat.completions.create(
                model="smol", temperature=0, max_tokens=12, stream=True,
                messages=[{"role": "user", "content": f"Say the number {i}."}])
            return "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])

        async def all_of_them():
            async with openai.AsyncOpenAI(base_url=self.server.url + "/v1", api_key="none", max_retries=0) as client:
                return await asyncio.gather(*[one(client, i) for i in range(16)]), await one(client, 3)

        together, alone = asyncio.run(all_of_them())
        self.assertTrue(all(together), together)
        self.assertEqual(together[3], alone)
        self.expect_idle_again()


class Errors(SdkCase):
    def refused(self, kind, **body):
        with self.assertRaises(kind) as caught:
            self.client.chat.completions.create(**{"model": "smol", "messages": COUNT, **body})
        return caught.exception

    def test_a_wrong_field_is_a_bad_request_that_names_it(self):
        for field, value in (("temperature", 7), ("top_logprobs", 3), ("n", 0), ("stop", [""]), ("messages", []),
                             ("max_tokens", 0), ("messages", [{"role": "wizard", "content": "x"}])):
            error = self.refused(openai.BadRequestError, **{field: value})
            self.assertTrue(error.param.startswith(field), error)
            self.assertIn(error.param, error.message)
            self.assertEqual(error.type, "invalid_request_error")

    def test_too_long_for_the_context_says_the_numbers(self):
        error = self.refused(openai.BadRequestError, max_tokens=100000)
        self.assertEqual(error.code, "context_length_exceeded")
        self.assertIn("8192", error.message)
        self.assertIn("100000", error.message)

    def test_another_model_is_not_found(self):
        self.assertEqual(self.refused(openai.NotFoundError, model="gpt-4").code, "model_not_found")

    def test_a_wrong_field_of_a_stream_is_the_same_error_before_it_begins(self):
        self.assertEqual(self.refused(openai.BadRequestError, temperature=7, stream=True).param, "temperature")

    def test_an_image_is_refused_by_name(self):
        error = self.refused(openai.BadRequestError, messages=[{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "http://127.0.0.1/x.png"}}]}])
        self.assertIn("image_url", error.message)


class Leaving(SdkCase):
    """A client that leaves ends its work: the gauge goes to 0, the counter of cancelled requests up."""

    def setUp(self):
        self.cancelled = self.server.metric("pacer_requests_cancelled_total")

    def expect_cancelled(self, count: int = 1):
        self.server.wait_for(
            lambda: self.server.metric("pacer_requests_cancelled_total") == self.cancelled + count, "cancelled")
        self.expect_idle_again()

    def test_by_a_timeout(self):
        with self.assertRaises(openai.APITimeoutError):
            self.client.completions.create(model="smol", timeout=0.5, **ENDLESS)
        self.expect_cancelled()

    def test_by_closing_a_stream(self):
        stream = self.client.completions.create(model="smol", stream=True, **ENDLESS)
        for _ in range(5):
            next(stream)
        stream.close()
        self.expect_cancelled()

    def test_by_leaving_a_with_block_early(self):
        with self.client.completions.create(model="smol", stream=True, **ENDLESS) as stream:
            for _ in stream:
                break
        self.expect_cancelled()

    def test_by_cancelling_asynchronous_tasks(self):
        async def run():
            async with openai.AsyncOpenAI(base_url=self.server.url + "/v1", api_key="none", max_retries=0) as client:
                tasks = [asyncio.create_task(client.completions.create(model="smol", **ENDLESS)) for _ in range(4)]
                while await asyncio.to_thread(self.server.metric, "vllm:num_requests_running") < 4:
                    await asyncio.sleep(0.02)
                for task in tasks:
                    task.cancel()
                return await asyncio.gather(*tasks, return_exceptions=True)

        self.assertEqual([type(result) for result in asyncio.run(run())], [asyncio.CancelledError] * 4)
        self.expect_cancelled(4)


class FullQueue(SdkCase):
    flags = ("--max-num-seqs", "1", "--max-queue", "0", "--served-model-name", "smol")

    def test_is_a_rate_limit_error_and_a_retry_waits_as_long_as_it_is_told(self):
        with self.client.completions.create(model="smol", stream=True, **ENDLESS) as stream:
            next(stream)
            with self.assertRaises(openai.RateLimitError) as caught:
                self.client.completions.create(model="smol", prompt="x", max_tokens=1)
            self.assertEqual(caught.exception.code, "rate_limit_exceeded")
            wait = float(caught.exception.response.headers["retry-after"])
            self.assertGreaterEqual(wait, 1)
            rejected = self.server.metric("pacer_requests_rejected_total")
            answers = []
            patient = threading.Thread(target=lambda: answers.append(
                client_of(self.server, max_retries=5).completions.create(model="smol", prompt="x", max_tokens=1)))
            began = time.monotonic()
            patient.start()
            self.server.wait_for(lambda: self.server.metric("pacer_requests_rejected_total") > rejected, "refused once")
        patient.join(DEADLINE)
        self.assertEqual(answers[0].choices[0].finish_reason, "length")
        self.assertGreaterEqual(time.monotonic() - began, wait)  # sooner only if Retry-After was not understood


class Draining(SdkCase):
    def test_new_requests_are_503_and_the_stream_in_flight_ends_well(self):
        stream = self.client.completions.create(model="smol", prompt="Once", max_tokens=300, stream=True,
                                                extra_body={"ignore_eos": True})
        next(stream)
        self.server.process.send_signal(signal.SIGTERM)
        self.server.wait_for(lambda: self.server.request("GET", "/ready")[0] == 503, "draining")
        with self.assertRaises(openai.APIStatusError) as caught:
            self.client.completions.create(model="smol", prompt="x", max_tokens=1)
        self.assertEqual((caught.exception.status_code, caught.exception.code), (503, "service_unavailable"))
        self.assertEqual(list(stream)[-1].choices[0].finish_reason, "length")
        self.assertEqual(self.server.process.wait(DEADLINE), 0)


class Keys(SdkCase):
    flags = ("--api-key", "right", "--served-model-name", "smol")

    def test_a_wrong_key_is_an_authentication_error_and_the_right_one_is_served(self):
        for key in ("wrong", "righ", "rightright"):
            with self.assertRaises(openai.AuthenticationError) as caught:
                client_of(self.server, api_key=key).completions.create(model="smol", prompt="x", max_tokens=1)
            self.assertNotIn("right", caught.exception.message)
        with self.assertRaises(openai.AuthenticationError):
            client_of(self.server, api_key="wrong").models.list()
        answer = client_of(self.server, api_key="right").completions.create(model="smol", prompt="x", max_tokens=1)
        self.assertEqual(answer.usage.completion_tokens, 1)


if __name__ == "__main__":
    sys.exit(main(__doc__, take_pacer, [SMOLLM2]))
