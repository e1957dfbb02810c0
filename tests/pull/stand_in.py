"""A stand-in for the hub, a package index and any web server, as kind or as broken as a test wants it.

    with StandIn() as web:
        web.files["/a/model.gguf"] = File(body, faults=[Cut(1000)])
        ... web.url ... web.requests ...

Faults are used up one a request, so that what comes after them is a server that works.
"""
import dataclasses
import hashlib
import http.server
import io
import json
import struct
import tarfile
import threading
import time
import zipfile


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# --- what is served -------------------------------------------------------------------------------------------------

def gguf(payload: bytes, keys: dict[str, int] | None = None, tensor: str = "t") -> bytes:
    """A right GGUF file with one F32 tensor; `keys` are UINT32."""
    def text(value: bytes) -> bytes:
        return struct.pack("<Q", len(value)) + value
    payload += bytes(-len(payload) % 4)
    out = b"GGUF" + struct.pack("<IQQ", 3, 1, len(keys or {}))
    for key, value in (keys or {}).items():
        out += text(key.encode()) + struct.pack("<II", 4, value)
    out += text(tensor.encode()) + struct.pack("<IQIQ", 1, len(payload) // 4, 0, 0)
    return out + bytes(-len(out) % 32) + payload


def shard(number: int, count: int, payload: bytes) -> bytes:
    return gguf(payload, {"split.no": number, "split.count": count, "split.tensors.count": count}, f"t{number}")


def wheel(members: dict[str, bytes], requires: tuple[str, ...] = (), name: str = "p", version: str = "1") -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, body in members.items():
            archive.writestr(member, body)
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        lines += [f"Requires-Dist: {r}" for r in requires]
        archive.writestr(f"{name}-{version}.dist-info/METADATA", "\n".join(lines) + "\n\nRequires-Dist: not-this\n")
    return data.getvalue()


def sdist(members: dict[str, bytes]) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for member, body in members.items():
            info = tarfile.TarInfo(member)
            info.size = len(body)
            archive.addfile(info, io.BytesIO(body))
    return data.getvalue()


# --- faults ---------------------------------------------------------------------------------------------------------

@dataclasses.dataclass
class Cut:
    """The connection ends after so many bytes of the body; `silently`: without a length to miss."""
    after: int
    silently: bool = False


@dataclasses.dataclass
class Hang:
    """So many bytes, and then nothing more until the other side leaves."""
    after: int


@dataclasses.dataclass
class Answer:
    status: int
    headers: dict[str, str] = dataclasses.field(default_factory=dict)
    body: bytes = b""


@dataclasses.dataclass
class File:
    body: bytes
    type: str = "application/octet-stream"
    etag: str = ""
    ranges: bool = True
    faults: list = dataclasses.field(default_factory=list)
    headers: dict[str, str] = dataclasses.field(default_factory=dict)
    token: str = ""  # what the Authorization header must carry


class StandIn:
    def __init__(self):
        self.files: dict[str, File | Answer] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []  # path, headers in lower case
        self.lock = threading.Lock()
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                with owner.lock:
                    owner.requests.append((self.path, {k.lower(): v for k, v in self.headers.items()}))
                try:
                    owner.answer(self)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.other_name = f"http://localhost:{self.port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def fetched(self, path: str) -> list[dict[str, str]]:
        with self.lock:
            return [headers for p, headers in self.requests if p.split("?")[0] == path]

    def answer(self, handler):
        file = self.files.get(handler.path.split("?")[0])
        if file is None:
            return self.send(handler, 404, {}, b"nothing here")
        if isinstance(file, Answer):
            return self.send(handler, file.status, file.headers, file.body)
        if file.token and handler.headers.get("Authorization") != f"Bearer {file.token}":
            return self.send(handler, 401, {}, b"who are you?")
        with self.lock:
            fault = file.faults.pop(0) if file.faults else None
        if isinstance(fault, Answer):
            return self.send(handler, fault.status, fault.headers, fault.body)
        self.send_file(handler, file, fault)

    @staticmethod
    def send(handler, status, headers, body):
        handler.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    @staticmethod
    def send_file(handler, file: File, fault):
        first, status = 0, 200
        asked = handler.headers.get("Range")
        same = handler.headers.get("If-Range") in (None, file.etag)
        if asked and file.ranges and same:
            first, status = int(asked.removeprefix("bytes=").removesuffix("-")), 206
            if first >= len(file.body):
                return StandIn.send(handler, 416, {"Content-Range": f"bytes */{len(file.body)}"}, b"")
        body = file.body[first:]
        handler.send_response(status)
        handler.send_header("Content-Type", file.type)
        if not (isinstance(fault, Cut) and fault.silently):
            handler.send_header("Content-Length", str(len(body)))
        if status == 206:
            handler.send_header("Content-Range", f"bytes {first}-{len(file.body) - 1}/{len(file.body)}")
        if file.etag:
            handler.send_header("ETag", file.etag)
        for name, value in file.headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.close_connection = True
        handler.wfile.write(body if fault is None else body[:fault.after])
        handler.wfile.flush()
        if isinstance(fault, Hang):
            while handler.connection.recv(1):  # until the other side closes
                time.sleep(0.01)

    # --- the shapes of the hub and the index

    def add_hub(self, repo: str, files: dict[str, bytes], lfs: bool = True, **options) -> None:
        tree = [{"type": "directory", "path": "sub", "oid": "0", "size": 0},
                {"type": "file", "path": "README.md", "oid": "1", "size": 5}]
        for path, body in files.items():
            entry = {"type": "file", "path": path, "oid": "f" * 40, "size": len(body)}
            if lfs:
                entry["lfs"] = {"oid": sha256(body), "size": len(body), "pointerSize": 134}
            tree.append(entry)
            self.files[f"/{repo}/resolve/main/{path}"] = File(body, **options)
        self.files[f"/api/models/{repo}/tree/main"] = File(json.dumps(tree).encode(), "application/json",
                                                          token=options.get("token", ""))

    def add_project(self, project: str, packages: dict[str, bytes], html: bool = False, yanked: tuple[str, ...] = (),
                    **options) -> None:
        files, links = [], []
        for name, body in packages.items():
            self.files[f"/packages/{name}"] = File(body, **options)
            files.append({"filename": name, "url": f"../../packages/{name}", "hashes": {"sha256": sha256(body)},
                          "size": len(body), "yanked": "broken" if name in yanked else False})
            mark = ' data-yanked="broken"' if name in yanked else ""
            links.append(f'<a class=x href="../../packages/{name}?a=1&amp;b=2#sha256={sha256(body)}"{mark}>{name}</a>')
        page = ("<!DOCTYPE html><html><body><a>no link</a><a href='mailto:x'>m</a>" + "<br/>\n".join(links)).encode()
        if not html:
            page = json.dumps({"meta": {"api-version": "1.1"}, "name": project, "files": files}).encode()
        self.files[f"/simple/{project}/"] = File(
            page, "text/html; charset=utf-8" if html else "application/vnd.pypi.simple.v1+json")
