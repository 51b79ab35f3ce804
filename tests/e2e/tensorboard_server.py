"""A real TensorBoard on loopback, and a real Chromium that looks at it."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from urllib.parse import quote

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
CHROMIUM_ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
STARTS_WITHIN_S = 60
SERVERS = {"default": [], "python": ["--load_fast=false"]}


class TensorBoard:
    """Runs until it is closed; `get` asks a route, `wait_for` asks until the answer is as wanted."""

    def __init__(self, logdir: str, *options: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the server
        command = [sys.executable, "-m", "tensorboard.main", "--logdir", logdir, "--host", "127.0.0.1"]
        command += ["--port", str(port), "--reload_interval", "1", *options]
        self._process = subprocess.Popen(command, stdout=self._log, stderr=subprocess.STDOUT)

    def get(self, route: str):
        with urllib.request.urlopen(f"{self.url}/data/{route}", timeout=30) as answer:
            return json.load(answer)

    def wait_for(self, route: str, wanted, within: float = STARTS_WITHIN_S):
        until = time.monotonic() + within
        while time.monotonic() < until:
            with contextlib.suppress(urllib.error.URLError, ConnectionError):
                answer = self.get(route)
                if wanted(answer):
                    return answer
            assert self._process.poll() is None, self.log()
            time.sleep(0.1)
        raise AssertionError(f"{route} did not become as wanted\n{self.log()}")

    def wait_for_runs(self, count: int, step: int = 0, within: float = STARTS_WITHIN_S):
        def wanted(answer) -> bool:
            return len([run for run in answer["runs"] if run["step"] >= step]) == count

        return self.wait_for("plugin/trainmeter/runs", wanted, within)["runs"]

    def data(self, *runs: str):
        return self.get("plugin/trainmeter/data?" + "&".join("run=" + quote(run) for run in runs))

    def log(self) -> str:
        self._log.seek(0)
        return self._log.read()

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(20)
        self._log.close()
