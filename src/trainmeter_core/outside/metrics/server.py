"""Serves cached text on a loopback port from its own thread: a request never waits for anything that `tm` does."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from .text import CONTENT_TYPE, exposition, samples

if TYPE_CHECKING:
    from collections.abc import Mapping

HOST = "127.0.0.1"
EVERYTHING = "/metrics"
OWN_SERIES = "/series"
"""The run's own series under bare names, for a scraper that names its source itself and reads the node itself."""

PROMETHEUS_PREFIX = "trainmeter_"
_OWN_WITHOUT = ("node/",)
_REQUEST_TIMEOUT_S = 2.0
_LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]", "::1")


class MetricsServer:
    """Answers GET on loopback with the newest readings.

    Raises OSError when no port can be had. `labels` (run, node, …) are put on every reading.
    """

    def __init__(self, port: int = 0, labels: Mapping[str, str] | None = None) -> None:
        self._labels = dict(labels or {})
        self.pages: dict[str, bytes] = {EVERYTHING: b"", OWN_SERIES: b""}
        self._server = _Server((HOST, port), _Handler)
        self._server.pages = self.pages
        base = f"http://{HOST}:{self._server.server_address[1]}"
        self.url = base + EVERYTHING
        self.own_series_url = base + OWN_SERIES
        self._thread = threading.Thread(target=self._server.serve_forever, name="trainmeter metrics", daemon=True)
        self._thread.start()

    def update(
        self,
        series: Mapping[str, float],
        *,
        run: str = "",
        ranks: Mapping[int, Mapping[str, float]] | None = None,
        gpus: Mapping[str, Mapping[str, float]] | None = None,
        beside: Mapping[str, tuple[Mapping[str, float], Mapping[int, Mapping[str, float]]]] | None = None,
    ) -> None:
        """Take these readings in place of the last ones; what is not finite is left out.

        `run` is the run that they are of where that is not the label's; `beside` has, by run, the series and ranks of
        others that go on at the same time. The run's own series keep their labels, which a scraper tells series by.
        """
        own = samples(series, labels=self._labels, ranks=ranks, gpus=gpus)
        told = samples(series, labels=self._of(run), ranks=ranks, gpus=gpus)
        for other, (its_series, its_ranks) in (beside or {}).items():
            for name, values in samples(its_series, labels=self._of(other), ranks=its_ranks).items():
                told.setdefault(name, {}).update(values)
        self.pages[EVERYTHING] = exposition(told, prefix=PROMETHEUS_PREFIX).encode()
        self.pages[OWN_SERIES] = exposition(own, without=_OWN_WITHOUT).encode()

    def _of(self, run: str) -> dict[str, str]:
        return {**self._labels, "run": run} if run else self._labels

    def close(self) -> None:
        """Free the port; closing again does nothing."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join(_REQUEST_TIMEOUT_S)
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Twenty clients at once would wait a second for a place in the default queue of five.
    request_queue_size = 128
    block_on_close = False
    pages: dict[str, bytes]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A scraper that went away in the middle is no error of ours."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _REQUEST_TIMEOUT_S
    server_version = "trainmeter"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer a scrape."""
        if not _is_local(self.headers.get("Host", "")):
            # A page in the user's browser may have pointed its own name at this address.
            self._answer(403, b"only this machine's own names are served\n")
            return
        page = self.server.pages.get(self.path.partition("?")[0])
        if page is None:
            self._answer(404, b"see /metrics\n")
        else:
            self._answer(200, page)

    do_HEAD = do_GET  # noqa: N815 - the name that http.server calls

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Nothing is written to the user's terminal."""


def _is_local(host: str) -> bool:
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    return name.lower() in _LOCAL_NAMES
