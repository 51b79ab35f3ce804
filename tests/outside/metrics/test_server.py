"""The loopback endpoint under clients that misbehave, and the page for a scraper that names its source itself."""

from __future__ import annotations

import socket
import time
import urllib.request

import pytest

from trainmeter_core.outside.metrics import MetricsServer


@pytest.fixture
def server():
    running = MetricsServer(labels={"run": 'a"b\\c\nd', "node": "n"})
    yield running
    running.close()


def get(url: str, **headers: str) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=5) as answer:
        return answer.read()


def test_the_runs_own_series_have_bare_names_and_leave_the_node_out(server):
    server.update({"trainmeter/mfu_pct": 41.5, "node/load_1": 2.0})
    text = get(server.own_series_url).decode()
    assert text.splitlines()[-1].startswith("mfu_pct{")
    assert "node_load" not in text


def test_a_client_that_says_nothing_holds_nobody_up(server):
    host, port = server.url.removeprefix("http://").partition("/")[0].split(":")
    silent = [socket.create_connection((host, int(port))) for _ in range(20)]
    begin = time.monotonic()
    get(server.url)
    assert time.monotonic() - begin < 1
    server.close()
    assert time.monotonic() - begin < 4
    for each in silent:
        each.close()


def test_closing_frees_the_port_and_may_be_repeated(server):
    port = int(server.url.removeprefix("http://127.0.0.1:").partition("/")[0])
    server.close()
    server.close()
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))
