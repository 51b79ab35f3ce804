"""A real `mlflow server` on sqlite in processes of its own, that can be killed and started again where it was."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class RealServer:
    """Serves the database and the artifacts of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._port = free_port()
        self.uri = f"http://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        told = self.folder.parent / (self.folder.name + ".log")
        with told.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(self._port),
                 "--workers", "1", "--backend-store-uri", f"sqlite:///{self.folder}/mlflow.db",
                 "--artifacts-destination", str(self.folder / "a")],
                stdout=log, stderr=log, cwd=self.folder.parent, start_new_session=True,
            )  # fmt: skip
        for _ in range(600):
            try:
                urllib.request.urlopen(self.uri + "/health", timeout=2).read()
                return
            except OSError:
                assert self._process.poll() is None, told.read_text()
                time.sleep(0.2)
        raise AssertionError("the server never answered: " + told.read_text())

    def end(self, how: int = signal.SIGTERM) -> None:
        """End all of its processes by a signal; none is left afterwards."""
        if self._process is not None:
            os.killpg(self._process.pid, how)
            self._process.wait(60)
            self._process = None


@contextlib.contextmanager
def tracking_server(folder: Path) -> Iterator[str]:
    """The address of a server that keeps everything in the folder; a database that is there already is used."""
    server = RealServer(folder)
    try:
        server.start()
        yield server.uri
    finally:
        server.end()
