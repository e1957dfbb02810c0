#!/usr/bin/env python3
"""Chat templates as Jinja2 renders them, for comparison with `pacer template`.

  make_fixture.py                          writes expected.json: features/*.jinja x their contexts
  make_fixture.py --compare DIR --pacer build/dev/pacer -m MODEL.gguf
                                           renders every DIR/*.jinja with every conversation of
                                           conversations.json by both, and prints each difference

Needs jinja2 (as set up by transformers' chat templates: see environment()). The second form is for
template files of others, which are not kept here: the source archive of llama-cpp-python on PyPI has
some seventy under vendor/llama.cpp/models/templates. It exits 77 with a sentence when there are none.
"""

import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
NOW = datetime.datetime(2024, 7, 26, 12, 34, 56)  # what features/ are told; the C++ test says the same
BOS, EOS = None, "<|im_end|>"  # of the tokenizer in src/text/test_tokenizer.h


def environment(now):
    """The environment that transformers.utils.chat_template_utils makes, of the same parts."""
    import jinja2
    import jinja2.ext
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(jinja2.ext.Extension):
        tags = {"generation"}

        def parse(self, parser):
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

        def _render(self, caller):
            return caller()

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                         extensions=[Generation, jinja2.ext.loopcontrols])
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = lambda format: now().strftime(format)
    return made


def render(source, context, now, bos=BOS, eos=EOS):
    """{"text"}, {"raised": the template's own sentence} or {"fails": Python's}."""
    import jinja2

    values = {"tools": None, "documents": None, "add_generation_prompt": True}
    if isinstance(context, list):
        context = {"messages": context}
    values.update(context)
    if bos is not None:
        values["bos_token"] = bos
    if eos is not None:
        values["eos_token"] = eos
    try:
        return {"text": environment(now).from_string(source).render(**values)}
    except jinja2.exceptions.TemplateError as error:
        own = type(error) is jinja2.exceptions.TemplateError
        return {"raised": str(error)} if own else {"fails": f"{type(error).__name__}: {error}"}
    except Exception as error:  # whatever Python says of a template that does not fit
        return {"fails": f"{type(error).__name__}: {error}"}


def features():
    """(name, source, contexts): the list in NAME.json; for chat.jinja all conversations; else one empty."""
    for path in sorted((HERE / "features").glob("*.jinja")):
        source = path.read_bytes().decode()  # line ends as they are
        contexts_path = path.with_suffix(".json")
        if path.name == "chat.jinja":
            contexts = list(json.loads((HERE / "conversations.json").read_text(encoding="utf-8")).values())
        elif contexts_path.exists():
            contexts = json.loads(contexts_path.read_text(encoding="utf-8"))
        else:
            contexts = [{}]
        yield path.name, source, contexts


def write_expected():
    cases = []
    for name, source, contexts in features():
        for context in contexts:
            cases.append({"template": name, "context": context, **render(source, context, lambda: NOW)})
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    (HERE / "expected.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    print(f"{len(cases)} cases")


def by_pacer(options, template, context):
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(context, file)
        file.flush()
        done = subprocess.run([options.pacer, "template", "-m", options.model, "--chat-template",
                               str(template), file.name], capture_output=True, env={**os.environ, "TZ": "UTC"})
    if done.returncode == 0:
        return {"text": done.stdout.decode()}
    return {"fails": done.stderr.decode().strip()}


def same(expected, got):
    if "text" in expected:
        return expected == got
    if "raised" in expected:
        return "fails" in got and expected["raised"] in got["fails"]
    return "fails" in got


def compare(options):
    templates = sorted(pathlib.Path(options.compare).glob("*.jinja")) if options.compare else []
    if not templates:
        print(f"skipped: no *.jinja in {options.compare}")
        return 77
    os.environ["TZ"] = "UTC"
    conversations = json.loads((HERE / "conversations.json").read_text(encoding="utf-8"))
    alike = differ = 0
    for template in templates:
        source = template.read_bytes().decode()
        for name, context in conversations.items():
            expected = render(source, context, datetime.datetime.utcnow, options.bos, options.eos)
            got = by_pacer(options, template, context)
            if same(expected, got):
                alike += 1
                continue
            differ += 1
            print(f"--- {template.name}, {name}:\n  jinja2 {json.dumps(expected, ensure_ascii=False)}\n"
                  f"  pacer  {json.dumps(got, ensure_ascii=False)}")
    print(f"{len(templates)} templates x {len(conversations)} conversations: {alike} alike, {differ} differ")
    return 1 if differ else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--compare", metavar="DIR")
    parser.add_argument("--pacer", default="build/dev/pacer")
    parser.add_argument("-m", "--model")
    parser.add_argument("--bos", default="<|im_start|>", help="the model's own (default: SmolLM2's)")
    parser.add_argument("--eos", default="<|im_end|>")
    options = parser.parse_args()
    if options.compare is None:
        write_expected()
        return 0
    return compare(options)


if __name__ == "__main__":
    sys.exit(main())
