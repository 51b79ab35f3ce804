"""/metrics speaks Prometheus's text format on loopback, to local names only, and never waits for tm."""

from __future__ import annotations

import http.client
import math
import urllib.error
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from trainmeter_core.outside.metrics import MetricsServer


@pytest.fixture
def server():
    made = MetricsServer(labels={"run": 'a"b\\c\nd', "node": "n1"})
    yield made
    made.close()


def scrape(url):
    with urllib.request.urlopen(url, timeout=5) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        families = list(text_string_to_metric_families(answer.read().decode()))
    return {(s.name, *sorted(s.labels.items())): s.value for family in families for s in family.samples}


def test_a_prometheus_parser_reads_every_reading_with_its_labels(server):
    server.update(
        {"trainmeter/mfu_pct": 41.5, "node/cpu_pct": 12.0},
        ranks={3: {"rank/step": 7}},
        gpus={"GPU-1": {"gpu/power_w": 612.0, "ladder/4_ofu": 44.25}},
    )
    own = (("node", "n1"), ("run", 'a"b\\c\nd'))
    assert scrape(server.url) == {
        ("trainmeter_mfu_pct", *own): 41.5,
        ("trainmeter_node_cpu_pct", *own): 12.0,
        ("trainmeter_rank_step", own[0], ("rank", "3"), own[1]): 7,
        ("trainmeter_gpu_power_w", ("gpu", "GPU-1"), *own): 612.0,
        ("trainmeter_ladder_4_ofu", ("gpu", "GPU-1"), *own): 44.25,
    }


def test_what_is_not_finite_is_left_out_and_what_is_gone_is_gone(server):
    server.update({"mfu_pct": math.nan, "tflops": math.inf, "step": 3})
    assert {key[0] for key in scrape(server.url)} == {"trainmeter_step"}
    server.update({"tokens": 5})
    assert {key[0] for key in scrape(server.url)} == {"trainmeter_tokens"}


@pytest.mark.parametrize("host", ["attacker.example", "10.0.0.7:80", ""])
def test_another_hosts_name_is_refused(server, host):
    """A page in a browser may point its own name at this address (DNS rebinding)."""
    connection = http.client.HTTPConnection(server.url.split("/")[2], timeout=5)
    connection.putrequest("GET", "/metrics", skip_host=True)
    connection.putheader("Host", host)
    connection.endheaders()
    assert connection.getresponse().status == 403
    connection.close()


def test_it_listens_on_loopback_alone(server):
    assert server.url.startswith("http://127.0.0.1:")
    assert server._server.socket.getsockname()[0] == "127.0.0.1"


def test_another_path_is_not_found(server):
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(server.url + "/../secret", timeout=5)


def test_a_port_that_is_taken_is_an_error_at_once(server):
    port = int(server.url.split(":")[2].split("/")[0])
    with pytest.raises(OSError):
        MetricsServer(port)


def test_after_closing_the_port_is_free_again(server):
    server.close()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(server.url, timeout=2)
    server.close()


def test_trainings_that_go_on_at_the_same_time_stand_under_their_own_ids(server):
    server.update(
        {"step": 3, "node/cpu_pct": 12.0},
        run="b",
        ranks={0: {"rank/step": 3}},
        beside={"c": ({"step": 5}, {0: {"rank/step": 5}})},
    )
    told = scrape(server.url)
    assert told == {
        ("trainmeter_step", ("node", "n1"), ("run", "b")): 3,
        ("trainmeter_step", ("node", "n1"), ("run", "c")): 5,
        ("trainmeter_node_cpu_pct", ("node", "n1"), ("run", "b")): 12.0,
        ("trainmeter_rank_step", ("node", "n1"), ("rank", "0"), ("run", "b")): 3,
        ("trainmeter_rank_step", ("node", "n1"), ("rank", "0"), ("run", "c")): 5,
    }


def test_a_scraper_that_tells_series_by_their_labels_finds_the_same_ones_throughout(server):
    server.update({"step": 3}, run="b", beside={"c": ({"step": 5}, {})})
    assert scrape(server.own_series_url) == {("step", ("node", "n1"), ("run", 'a"b\\c\nd')): 3}
