"""A real MLflow tracking server on sqlite, on loopback."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.request
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STARTS_WITHIN_S = 60


@contextlib.contextmanager
def tracking_server(folder: Path) -> Iterator[str]:
    """The address of a server that keeps everything in the folder; a database that is there already is used."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
             "--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", str(folder / "a")],
            stdout=log, stderr=log, cwd=folder, start_new_session=True,
        )  # fmt: skip
    uri = f"http://127.0.0.1:{port}"
    try:
        until = time.monotonic() + STARTS_WITHIN_S
        while True:
            try:
                urllib.request.urlopen(uri + "/health", timeout=2).read()
                break
            except OSError:
                assert process.poll() is None and time.monotonic() < until, (folder / "log").read_text()  # noqa: PT018
                time.sleep(0.2)
        yield uri
    finally:
        os.killpg(process.pid, 15)
        process.wait(20)
