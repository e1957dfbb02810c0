// The official OpenAI Node SDK against a server that runs: node_sdk_test.py starts the server and this.
//
// PACER_URL: of a server with 16 slots, no queue and the key PACER_KEY. PACER_CLIENTS: where install.sh put the SDK.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

const require = createRequire(process.env.PACER_CLIENTS + "/node/");
const { OpenAI } = require("openai");

const url = process.env.PACER_URL;
const key = process.env.PACER_KEY ?? "none";
const clientOf = (more = {}) =>
  new OpenAI({ baseURL: url + "/v1", apiKey: key, maxRetries: 0, timeout: 120_000, ...more });
const client = clientOf();

const messages = [{ role: "user", content: "What is 7 + 5? Answer with the number only." }];
const count = { model: "smol", messages, temperature: 0, max_tokens: 40 };
const capital = { model: "smol", prompt: "The capital of France is", temperature: 0, max_tokens: 8 };
const endless = { model: "smol", prompt: "Once upon a time", max_tokens: 4000, ignore_eos: true };

async function metric(name) {
  const text = await (await fetch(url + "/metrics", { headers: { Authorization: "Bearer " + key } })).text();
  const lines = text.split("\n").filter((line) => line.startsWith(name + "{") || line.startsWith(name + " "));
  assert.ok(lines.length > 0, "no metric " + name);
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" ") + 1)), 0);
}

// A bound on hanging, never a measure of speed.
async function eventually(condition, what) {
  for (let i = 0; i < 6000; ++i) {
    if (await condition()) return;
    await sleep(20);
  }
  assert.fail(what);
}

async function expectCancelled(before) {
  await eventually(async () => (await metric("pacer_requests_cancelled_total")) === before + 1, "cancelled");
  await eventually(async () => (await metric("vllm:num_requests_running")) === 0, "gauge back to 0");
}

async function all(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

const textOf = (chunks) =>
  chunks.flatMap((chunk) => chunk.choices.map((c) => c.text ?? c.delta.content ?? "")).join("");

test("a chat", async () => {
  const answer = await client.chat.completions.create(count);
  assert.match(answer.choices[0].message.content, /12/);
  assert.equal(answer.choices[0].finish_reason, "stop");
  assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
});

test("a streamed chat says the same and its usage comes last", async () => {
  const whole = await client.chat.completions.create(count);
  const chunks = await all(
    await client.chat.completions.create({ ...count, stream: true, stream_options: { include_usage: true } }),
  );
  assert.equal(chunks[0].choices[0].delta.role, "assistant");
  assert.equal(textOf(chunks), whole.choices[0].message.content);
  assert.equal(chunks.at(-2).choices[0].finish_reason, "stop");
  assert.deepEqual(chunks.at(-1).choices, []);
  assert.deepEqual(chunks.at(-1).usage, whole.usage);
});

test("the streaming helper of the SDK puts the same together", async () => {
  const runner = client.chat.completions.stream(count);
  let said = "";
  runner.on("content", (delta) => (said += delta));
  const final = await runner.finalChatCompletion();
  assert.equal(final.choices[0].message.content, said);
  assert.equal(final.choices[0].finish_reason, "stop");
});

test("log-probabilities are the same streamed and not", async () => {
  const ask = { ...count, max_tokens: 4, logprobs: true, top_logprobs: 3 };
  const whole = (await client.chat.completions.create(ask)).choices[0].logprobs.content;
  const chunks = await all(await client.chat.completions.create({ ...ask, stream: true }));
  assert.deepEqual(chunks.flatMap((chunk) => chunk.choices[0]?.logprobs?.content ?? []), whole);
  assert.ok(whole.length > 0 && whole.every((entry) => entry.top_logprobs.length === 3));
});

test("completions: a stream, a list of prompts, token ids, several choices, a stop string", async () => {
  const whole = await client.completions.create(capital);
  assert.ok(whole.choices[0].text.startsWith(" Paris"));
  assert.equal(textOf(await all(await client.completions.create({ ...capital, stream: true }))), whole.choices[0].text);
  const several = await client.completions.create({ ...capital, prompt: [capital.prompt, "Two plus two is"], n: 2 });
  assert.deepEqual(several.choices.map((choice) => choice.index), [0, 1, 2, 3]);
  assert.equal(several.choices[1].text, whole.choices[0].text);
  const { tokens } = await client.post("/../tokenize", { body: { prompt: capital.prompt } });
  assert.equal((await client.completions.create({ ...capital, prompt: tokens })).choices[0].text, whole.choices[0].text);
  const stopped = await client.completions.create({ ...capital, stop: "Paris" });
  assert.deepEqual([stopped.choices[0].text, stopped.choices[0].finish_reason], [" ", "stop"]);
});

test("models, one by one, and another that is not there", async () => {
  assert.deepEqual((await all(await client.models.list())).map((model) => model.id), ["smol"]);
  assert.equal((await client.models.retrieve("smol")).object, "model");
  await assert.rejects(client.models.retrieve("gpt-4"), OpenAI.NotFoundError);
});

test("errors are the classes of the SDK, and name the field", async () => {
  await assert.rejects(client.chat.completions.create({ ...count, temperature: 7 }), (error) => {
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.deepEqual([error.param, error.type], ["temperature", "invalid_request_error"]);
    return true;
  });
  await assert.rejects(client.chat.completions.create({ ...count, stream: true, n: -1 }), OpenAI.BadRequestError);
  await assert.rejects(client.chat.completions.create({ ...count, model: "gpt-4" }), OpenAI.NotFoundError);
  await assert.rejects(clientOf({ apiKey: "wrong" }).models.list(), OpenAI.AuthenticationError);
});

test("the response has the request id", async () => {
  const { response, request_id } = await client.chat.completions
    .create({ ...count, max_tokens: 1 }, { headers: { "X-Request-Id": "req-from-test" } })
    .withResponse();
  assert.equal(response.headers.get("x-request-id"), "req-from-test");
  assert.equal(request_id, "req-from-test");
});

test("8 streams at once say what one says alone", async () => {
  const ask = (i) => ({ ...count, max_tokens: 12, messages: [{ role: "user", content: `Say the number ${i}.` }] });
  const say = async (i) => textOf(await all(await client.chat.completions.create({ ...ask(i), stream: true })));
  const together = await Promise.all([...Array(8).keys()].map(say));
  assert.equal(await say(5), together[5]);
});

test("an AbortController ends the work of a stream", async () => {
  const before = await metric("pacer_requests_cancelled_total");
  const controller = new AbortController();
  const stream = await client.completions.create({ ...endless, stream: true }, { signal: controller.signal });
  let chunks = 0;
  try {
    for await (const _ of stream) if (++chunks === 5) controller.abort();
  } catch (error) {
    assert.ok(error instanceof OpenAI.APIUserAbortError, error);
  }
  assert.ok(chunks >= 5);
  await expectCancelled(before);
});

test("leaving the loop over a stream ends its work", async () => {
  const before = await metric("pacer_requests_cancelled_total");
  for await (const _ of await client.completions.create({ ...endless, stream: true })) break;
  await expectCancelled(before);
});

test("an AbortController ends the work of a whole answer", async () => {
  const before = await metric("pacer_requests_cancelled_total");
  const controller = new AbortController();
  const answer = client.completions.create(endless, { signal: controller.signal });
  answer.catch(() => {}); // looked at below
  await eventually(async () => (await metric("vllm:num_requests_running")) === 1, "it runs");
  controller.abort();
  await assert.rejects(answer, OpenAI.APIUserAbortError);
  await expectCancelled(before);
});

test("a timeout ends the work", async () => {
  const before = await metric("pacer_requests_cancelled_total");
  await assert.rejects(clientOf({ timeout: 500 }).completions.create(endless), OpenAI.APIConnectionTimeoutError);
  await expectCancelled(before);
});

test("a full queue is a RateLimitError, and a retry waits as long as it is told", async () => {
  const controller = new AbortController();
  // As many as the server runs and lets wait (node_sdk_test.py).
  const full = await Promise.all(
    [...Array(16).keys()].map(() =>
      client.completions.create({ ...endless, stream: true }, { signal: controller.signal }),
    ),
  );
  const one = { ...capital, max_tokens: 1 };
  let wait = 0;
  await assert.rejects(client.completions.create(one), (error) => {
    assert.ok(error instanceof OpenAI.RateLimitError);
    wait = Number(error.headers.get("retry-after"));
    return true;
  });
  assert.ok(wait >= 1);
  const rejected = await metric("pacer_requests_rejected_total");
  const began = performance.now();
  const patient = clientOf({ maxRetries: 5 }).completions.create(one);
  await eventually(async () => (await metric("pacer_requests_rejected_total")) > rejected, "refused once");
  controller.abort();
  assert.equal((await patient).choices[0].finish_reason, "length");
  assert.ok(performance.now() - began >= wait * 1000 - 5); // sooner only if Retry-After was not understood
  await Promise.all(full.map((stream) => all(stream).catch(() => {})));
});
