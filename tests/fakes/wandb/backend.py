"""A stand-in for the W&B backend that the real client talks to, online; only the standard library.

It answers GraphQL by operation name, file_stream, and uploads. What it has no answer for is in `unknown_ops`, which
tests assert to be empty.
"""

# ruff: noqa: N815 - the names that http.server calls
from __future__ import annotations

import gzip
import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from .operations import ENTITY, Operations
from .state import Run

API_KEY = "0123456789abcdef" * 2 + "01234567"  # 40 characters: the client checks the length

_STREAM = re.compile(r"/files/([^/]+)/([^/]+)/([^/]+)/file_stream")

if TYPE_CHECKING:
    from typing_extensions import Self

Answer = tuple[int, Any, str]
JSON = "application/json"


class Backend:
    """The server; a context manager.

    Faults: `delay_s` before each answer; `statuses` answered next to file_stream, `always` answered to all of them;
    `close_early` closes the connection instead of answering a file_stream; `down`, which a program may bring about by
    asking for /go-away, does so for everything.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.runs: dict[tuple[str, str, str], Run] = {}
        self.blobs: dict[str, bytes] = {}
        self.unknown_ops: list[str] = []
        self.streams = 0
        self.delay_s = 0.0
        self.statuses: list[int] = []
        self.always: int | None = None
        self.close_early = False
        self.down = False
        self.operations = Operations(self)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]  # the client resets idle ones
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def environment(self) -> dict[str, str]:
        """What makes the client talk to this backend."""
        return {
            "WANDB_BASE_URL": self.url,
            "WANDB_API_KEY": API_KEY,
            "WANDB_MODE": "online",
            "WANDB_ENTITY": ENTITY,
            "WANDB_ERROR_REPORTING": "false",
            "WANDB_DISABLE_GIT": "true",
            "WANDB_SILENT": "true",
        }

    def run(self, entity: str | None, project: str | None, name: str) -> Run:
        """Give a run, made on first sight."""
        key = (entity or ENTITY, project or "uncategorized", name)
        return self.runs.setdefault(key, Run(*key))

    def find(self, entity: str | None, project: str | None, name: str) -> Run | None:
        """Give a run if there is one."""
        return self.runs.get((entity or ENTITY, project or "uncategorized", name))

    def only_run(self) -> Run:
        """The one run that there is."""
        assert len(self.runs) == 1, list(self.runs)
        return next(iter(self.runs.values()))

    def begin_sweep(self, command: list[str], trials: dict[str, dict[str, Any]]) -> None:
        """Let an agent run this command once for each trial, a run's name and its parameters."""
        self.operations.sweep = {"program": "train.py", "method": "grid", "command": command, "parameters": {}}
        self.operations.trials = [
            {
                "type": "run", "run_id": name, "program": "train.py",
                "args": {key: {"value": value} for key, value in parameters.items()},
            }
            for name, parameters in trials.items()
        ]  # fmt: skip

    @property
    def artifacts(self) -> dict[str, dict[str, Any]]:
        """Artifacts by id."""
        return self.operations.artifacts

    @property
    def views(self) -> list[dict[str, Any]]:
        """Saved workspace views."""
        return self.operations.views

    def answer(self, method: str, path: str, body: bytes) -> Answer | None:
        """Answer one request; None closes the connection."""
        if self.delay_s:
            time.sleep(self.delay_s)
        stream = _STREAM.fullmatch(path)
        if self.down or (stream and self.close_early):
            return None
        with self.lock:
            if path == "/graphql" and method == "POST":
                return 200, self.operations.answer(json.loads(body)), JSON
            if stream:
                self.streams += 1
                status = self.statuses.pop(0) if self.statuses else self.always
                if status is not None:
                    return status, {"error": "asked for"}, JSON
                self.run(*stream.groups()).stream(json.loads(body))
                return 200, {}, JSON
            if path.startswith("/storage/"):
                return self._storage(method, path[len("/storage/") :], body)
            if path == "/go-away":
                self.down = True
                return 200, {}, JSON
            if path == "/healthz":
                return 200, {"ok": True}, JSON
            self.unknown_ops.append(f"{method} {path}")
            return 404, {"error": "no such path"}, JSON

    def _storage(self, method: str, key: str, body: bytes) -> Answer:
        if method in ("PUT", "POST"):
            self.blobs[key] = body
            kind, _, rest = key.partition("/")
            if kind == "runfile":
                entity, project, run, name = rest.split("/", 3)
                self.run(entity, project, run).files[name] = body
            return 200, {}, JSON
        if key in self.blobs:
            return 200, self.blobs[key], "application/octet-stream"
        return 404, {"error": "no such blob"}, JSON


def _handler(backend: Backend) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            """Quiet."""

        def _body(self) -> bytes:
            length = self.headers.get("Content-Length")
            data = b""
            if length is not None:
                data = self.rfile.read(int(length))
            elif "chunked" in (self.headers.get("Transfer-Encoding") or ""):
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    data += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
            return gzip.decompress(data) if self.headers.get("Content-Encoding") == "gzip" else data

        def _dispatch(self) -> None:
            path = unquote(urlsplit(self.path).path)
            body = self._body()
            try:
                answer = backend.answer(self.command, path, body)
            except Exception as error:  # noqa: BLE001 - a fault of this stand-in: 400 is final for the client, a 500 it retries
                backend.unknown_ops.append(f"FAULT {path}: {error!r}")
                answer = 400, {"error": repr(error)}, JSON
            if answer is None:
                self.close_connection = True
                return
            status, content, kind = answer
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = _dispatch

    return Handler
