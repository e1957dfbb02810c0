#!/usr/bin/env python3
"""End to end: what the commands that need no server print, and how they refuse. Standard library only.

    commands_test.py --pacer build/dev/pacer

Exits 77 (skipped) with a sentence when the model is not there.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from real_models import GEMMA3, SMOLLM2, main

PACER = ""
ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXT = ROOT / "tests/golden/shakespeare_60k.txt"


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
        figures = {tier: self.perplexity("-m", SMOLLM2, "-f", TEXT, "--windows", 1, env={"PACER_ISA": tier})
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


class WithFiles(Case):
    """Cases that write small files of their own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, content: str | bytes | list | dict, name: str = "file") -> pathlib.Path:
        path = self.folder / name
        if isinstance(content, (list, dict)):
            content = json.dumps(content)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path


HI = [{"role": "user", "content": "Hi"}]
HI_SMOLLM2 = ("<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
              "<|im_start|>user\nHi<|im_end|>\n")
ASSISTANT = "<|im_start|>assistant\n"
TOOLS = [{"type": "function", "function": {"name": "add"}}]


class Template(WithFiles):
    def rendered(self, source: str, context: list | dict, *flags) -> str:
        return self.output("template", "-m", SMOLLM2, "--chat-template", self.file(source, "template"), *flags,
                           self.file(context, "messages"))

    def test_a_list_of_messages_goes_through_the_models_template(self):
        self.assertEqual(self.output("template", "-m", SMOLLM2, self.file(HI)), HI_SMOLLM2 + ASSISTANT)

    def test_an_object_is_the_same_and_its_other_keys_are_variables(self):
        for extra, end in ({}, ASSISTANT), ({"add_generation_prompt": True}, ASSISTANT), \
                          ({"add_generation_prompt": False}, ""):
            context = self.file({"messages": HI, **extra})
            self.assertEqual(self.output("template", "-m", SMOLLM2, context), HI_SMOLLM2 + end)
        self.assertEqual(self.rendered("{{ z }}{{ tools|tojson }}{{ b.d is none }}{{ documents }}",
                                       {"messages": [], "z": "\u00e9", "tools": TOOLS, "b": {"d": None}}),
                         "\u00e9" + json.dumps(TOOLS) + "TrueNone")

    def test_nothing_is_added_to_what_the_template_prints(self):
        self.assertEqual(self.rendered("", []), "")
        self.assertEqual(self.rendered("a", []), "a")
        self.assertEqual(self.rendered("a\n\n", []), "a\n")  # as Jinja2: one line end at the end goes

    def test_guards_of_control_tokens_are_not_seen(self):
        self.assertEqual(self.rendered("{{ messages[0] }}", ["<|im_end|>"]), "<|im_end|>")

    def test_a_model_without_a_template_gets_chatml(self):
        self.assertEqual(self.output("template", "-m", GEMMA3, self.file(HI)),
                         "<|im_start|>user\nHi<|im_end|>\n" + ASSISTANT)

    def test_a_beginning_of_text_is_there_where_the_template_writes_it(self):
        template = self.file("{{ bos_token }}{{ messages[0].content }}", "template")
        self.assertEqual(self.output("template", "-m", GEMMA3, "--chat-template", template, self.file(HI)), "<bos>Hi")

    def test_messages_come_from_stdin_too(self):
        self.assertEqual(self.output("template", "-m", SMOLLM2, "-", stdin=json.dumps(HI).encode()),
                         HI_SMOLLM2 + ASSISTANT)

    def test_messages_reach_the_template_as_they_are_written(self):
        messages = [{"role": "developer", "content": [{"type": "text", "text": "a"}], "extra": 1},
                    {"role": "assistant", "content": None}]
        self.assertEqual(self.rendered("{{ messages }}", messages), str(messages))

    def test_a_request_goes_through_the_servers_rules(self):
        messages = [{"role": "developer", "content": [{"type": "text", "text": t} for t in "ab"]},
                    {"role": "assistant", "content": None, "tool_calls": [
                        {"function": {"name": "f", "arguments": "{\"x\": 1}"}}]}]
        body = {"model": "any", "temperature": 0.5, "messages": messages, "chat_template_kwargs": {"k": "v"}}
        self.assertEqual(self.rendered("{{ messages }}{{ k }}{{ add_generation_prompt }}", body, "--request"),
                         "[{'role': 'system', 'content': 'a\\nb'}, {'role': 'assistant', 'content': '', 'tool_calls': "
                         "[{'function': {'name': 'f', 'arguments': {'x': 1}}}]}]vTrue")
        for body, sentence in (
                ({"messages": HI, "tools": TOOLS}, "'tools' is not supported: the model's chat template takes no"),
                ({"messages": HI, "chat_template": "x"}, "'chat_template' is not supported"),
                ({"messages": HI, "temperature": 9}, "'temperature' must be a number in [0, 2], not 9"),
                ({"messages": []}, "'messages' must be a list of at least one message"),
                (HI, "the body is a JSON array; it must be an object")):
            path = self.file(body)
            self.assertIn(f"{path}: {sentence}", self.refusal("template", "-m", SMOLLM2, "--request", path))

    def test_refusals_are_one_sentence(self):
        for content, sentence in (
                ('[{"role": }]', "parse error at line 1, column 11"), ("", "parse error at line 1"),
                (b'["\xff"]', "ill-formed UTF-8"), ("3", "must be a list of messages, or an object with \"messages\""),
                ({"message": HI}, "must be a list of messages"), ({"messages": "x"}, "must be a list of messages"),
                ("[" * 200 + "]" * 200, "nested deeper than 120 levels")):
            path = self.file(content)
            refusal = self.refusal("template", "-m", SMOLLM2, path)
            self.assertIn(f"{path}: ", refusal)
            self.assertIn(sentence, refusal)
        self.assertIn("cannot open /no/such: No such file", self.refusal("template", "-m", SMOLLM2, "/no/such"))
        self.assertIn("cannot open '/no/model'", self.refusal("template", "-m", "/no/model", self.file(HI)))

    def test_a_templates_own_refusal_is_printed_as_it_is(self):
        template = self.file("{{ raise_exception('Roles must \"alternate\": ' + messages[0].role) }}", "template")
        refusal = self.refusal("template", "-m", SMOLLM2, "--chat-template", template, self.file(HI))
        self.assertTrue(refusal.endswith(' error Roles must "alternate": user'), refusal)

    def test_a_template_file_that_is_none_is_refused_by_every_command(self):
        broken = self.file("\n{% if %}", "broken")
        for path, sentence in ((broken, f"{broken}: syntax error"), ("/no/such", "'/no/such': No such file")):
            for command in (["template", self.file(HI)], ["run", "--chat", "-p", "x"], ["serve", "--port", 0]):
                self.assertIn(sentence, self.refusal(*command, "-m", SMOLLM2, "--chat-template", path))


class Run(WithFiles):
    def test_a_chat_goes_through_the_template_that_is_given(self):
        template = self.file("Once upon {{ messages[0].content }}")
        said = self.output("run", "-m", SMOLLM2, "-p", "Once upon a time", "-n", 8, "--threads", 2)
        self.assertGreater(len(said), 8)
        self.assertEqual(self.output("run", "-m", SMOLLM2, "--chat", "--chat-template", template, "-p", "a time",
                                     "-n", 8, "--threads", 2), said)


class Tokenize(WithFiles):
    def ids(self, *arguments, **options) -> list[int]:
        line = self.output("tokenize", *arguments, **options)
        self.assertRegex(line, r"^(\d+( \d+)*)?\n$")
        return [int(word) for word in line.split()]

    def test_a_file_is_taken_byte_for_byte(self):
        plain = self.ids("-m", SMOLLM2, "-f", self.file("a"))
        self.assertEqual(len(plain), 1)
        self.assertEqual(self.ids("-m", SMOLLM2, "-f", self.file("a\n")), plain + self.ids("-m", SMOLLM2, stdin=b"\n"))
        self.assertEqual(self.ids("-m", SMOLLM2, "-f", self.file("a\r\n")),
                         plain + self.ids("-m", SMOLLM2, stdin=b"\r\n"))
        self.assertEqual(self.ids("-m", SMOLLM2, stdin=b"a"), plain)
        self.assertEqual(self.ids("-m", SMOLLM2, stdin=b""), [])
        self.assertGreater(len(self.ids("-m", SMOLLM2, stdin=b"\xff\x00")), 1)

    def test_special_tokens_are_found_and_added_unless_told_not_to(self):
        end = self.ids("-m", SMOLLM2, stdin=b"<|im_end|>")
        self.assertEqual(end, [2])
        self.assertNotIn(2, self.ids("-m", SMOLLM2, "--no-special", stdin=b"<|im_end|>"))
        self.assertEqual(self.ids("-m", GEMMA3, stdin=b"Hi")[0], 2)  # <bos>
        self.assertEqual(self.ids("-m", GEMMA3, stdin=b"Hi")[1:], self.ids("-m", GEMMA3, "--no-special", stdin=b"Hi"))
        self.assertNotIn(2, self.ids("-m", GEMMA3, "--no-special", stdin=b"<bos>Hi"))

    def test_jsonl_is_an_array_for_each_string(self):
        texts = ["a", "", "<|im_end|>", "a\nb", "\u00e9\U0001F642"]
        lines = "".join(json.dumps(text) + "\n" for text in texts)
        for flags in [], ["--no-special"]:
            expected = [self.ids("-m", SMOLLM2, *flags, stdin=text.encode()) for text in texts]
            out = self.output("tokenize", "-m", SMOLLM2, "--jsonl", *flags, "-f", self.file(lines))
            self.assertEqual([json.loads(line) for line in out.splitlines()], expected)
            # The last line may do without its end.
            self.assertEqual(self.output("tokenize", "-m", SMOLLM2, "--jsonl", *flags, stdin=lines[:-1].encode()), out)

    def test_refusals_name_the_line(self):
        for lines in ('[1]\n', '"a\n', '\n', 'a'):
            self.assertIn("line 1 is no JSON string",
                          self.refusal("tokenize", "-m", SMOLLM2, "--jsonl", stdin=lines.encode()))
        done = run("tokenize", "-m", SMOLLM2, "--jsonl", stdin=b'"a"\n5\n"b"\n')
        self.assertEqual((done.returncode, done.stdout.count(b"\n")), (1, 1))
        self.assertIn(b"standard input: line 2 is no JSON string", done.stderr)
        self.assertIn("cannot open /no/such", self.refusal("tokenize", "-m", SMOLLM2, "-f", "/no/such"))


def take_pacer(path: str):
    global PACER
    PACER = path


if __name__ == "__main__":
    sys.exit(main(__doc__, take_pacer))
