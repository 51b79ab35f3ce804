"""The loopback endpoint: newest readings as Prometheus text, at once, to this machine's own names only."""

from __future__ import annotations

import http.client
import math
import socket
import time
import urllib.error
import urllib.request

import pytest

from trainmeter_core.outside.metrics import MetricsServer
from trainmeter_core.outside.metrics.text import exposition, metric_name, samples

parser = pytest.importorskip("prometheus_client.parser")


@pytest.fixture
def server():
    running = MetricsServer(labels={"run": 'a"b\\c\nd', "node": "n"})
    yield running
    running.close()


def get(url: str, **headers: str) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=5) as answer:
        return answer.read()


def test_readings_come_with_their_labels_and_prometheus_can_parse_them(server):
    server.update(
        {"trainmeter/mfu_pct": 41.5, "trainmeter/ladder/6_mfu": 41.5, "node/load_1": 2.0},
        ranks={1: {"step_time_s": 0.5}, 0: {"step_time_s": 0.25}},
        gpus={"0": {"gpu/power_w": 300}, "1": {"gpu/power_w": 310}},
    )
    families = parser.text_string_to_metric_families(get(server.url).decode())
    told = {(s.name, *sorted(s.labels.items())): s.value for family in families for s in family.samples}
    common = (("node", "n"), ("run", 'a"b\\c\nd'))
    assert told == {
        ("trainmeter_mfu_pct", *common): 41.5,
        ("trainmeter_ladder_6_mfu", *common): 41.5,
        ("trainmeter_node_load_1", *common): 2.0,
        ("trainmeter_step_time_s", ("node", "n"), ("rank", "0"), common[1]): 0.25,
        ("trainmeter_step_time_s", ("node", "n"), ("rank", "1"), common[1]): 0.5,
        ("trainmeter_gpu_power_w", ("gpu", "0"), *common): 300,
        ("trainmeter_gpu_power_w", ("gpu", "1"), *common): 310,
    }


def test_the_runs_own_series_have_bare_names_and_leave_the_node_out(server):
    server.update({"trainmeter/mfu_pct": 41.5, "node/load_1": 2.0})
    text = get(server.own_series_url).decode()
    assert text.splitlines()[-1].startswith("mfu_pct{")
    assert "node_load" not in text


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_left_out(value):
    assert exposition(samples({"a": value, "b": 1.0}, labels={})) == "# TYPE b gauge\nb{} 1.0\n"


def test_before_the_first_reading_the_page_is_empty_and_there(server):
    assert get(server.url) == b""


@pytest.mark.parametrize("name", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""])
def test_a_request_for_another_name_is_refused(server, name):
    """A page in a browser may point its own name at this address."""
    with pytest.raises(urllib.error.HTTPError) as refused:
        get(server.url, Host=name)
    assert refused.value.code == 403


@pytest.mark.parametrize("name", ["localhost", "localhost:9", "127.0.0.1", "[::1]:9"])
def test_this_machines_own_names_are_served(server, name):
    get(server.url, Host=name)


def test_another_path_or_method_is_refused(server):
    with pytest.raises(urllib.error.HTTPError) as refused:
        get(server.url + "/x")
    assert refused.value.code == 404
    connection = http.client.HTTPConnection(*server.url.removeprefix("http://").partition("/")[0].split(":"))
    connection.request("POST", "/metrics", body=b"x")
    assert connection.getresponse().status == 501
    connection.close()


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


def test_a_name_is_made_of_what_prometheus_allows():
    assert metric_name("time/data_wait") == "time_data_wait"
    assert metric_name("1_gpu-util é") == "_1_gpu_util__"
