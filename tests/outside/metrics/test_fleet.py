"""A real Prometheus scrapes two runs as two nodes, and one query gives the fleet's MFU."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from tests.fakes.nvml import fake_nvml

pytest.importorskip("torch")

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "tests" / "outside" / "programs" / "train_on_gpu.py"
[FLEET_MFU] = re.findall(r"```promql\n(.*?)\n*```", (ROOT / "docs" / "fleet.md").read_text(), re.DOTALL)[:1]


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def until(ask, seconds=90.0):
    end = time.monotonic() + seconds
    while True:
        found = ask()
        if found:
            return found
        assert time.monotonic() < end, "it never came"
        time.sleep(0.5)


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    """Its URL, with two runs on two ports as its targets: an H200 and a machine whose peak the user gave."""
    if shutil.which("prometheus") is None:
        pytest.skip("no prometheus on this machine: apt-get install prometheus")
    if fake_nvml.compiler() is None:
        pytest.skip("no C compiler to build the fake driver library with")
    folder = tmp_path_factory.mktemp("fleet")
    library = fake_nvml.build(folder)
    runs, ports = [], [free_port(), free_port()]
    for port, machine, options in zip(ports, ("h200x2", "silent"), ([], ["--peak-tflops", "300"]), strict=True):
        env = fake_nvml.environment(library, machine, TRAINMETER_HOME=str(folder / machine))
        command = [str(Path(sys.executable).with_name("tm")), "--metrics-port", str(port), *options]
        runs.append(
            subprocess.Popen(
                [*command, str(PROGRAM), "--seconds", "120"], env=env, cwd=folder, stderr=subprocess.DEVNULL
            )
        )
    targets = [f"127.0.0.1:{port}" for port in ports]
    config = {
        "global": {"scrape_interval": "1s"},
        "scrape_configs": [{"job_name": "trainmeter", "static_configs": [{"targets": targets}]}],
    }
    (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
    port = free_port()
    server = subprocess.Popen(
        [
            "prometheus",
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stderr=subprocess.DEVNULL,
        env={**os.environ, "GOMAXPROCS": "1"},
    )
    yield f"http://127.0.0.1:{port}"
    for process in (*runs, server):
        process.send_signal(signal.SIGTERM)
    for process in (*runs, server):
        process.wait(timeout=30)


def query(url, expression, at=None):
    asked = {"query": expression, **({"time": at} if at else {})}
    try:
        with urllib.request.urlopen(f"{url}/api/v1/query?{urllib.parse.urlencode(asked)}", timeout=5) as answer:
            return json.load(answer)["data"]["result"]
    except OSError:  # it is still starting
        return []


def test_one_query_gives_the_mfu_of_two_runs_weighed_by_their_gpus(prometheus):
    until(lambda: len(query(prometheus, "trainmeter_mfu_pct")) == 2)
    now = time.time()
    (fleet,) = query(prometheus, FLEET_MFU, now)

    def by_run(name):
        return {each["metric"]["run"]: float(each["value"][1]) for each in query(prometheus, name, now)}

    tflops, devices, peak = (by_run("trainmeter_" + name) for name in ("tflops_per_gpu", "devices", "peak_tflops"))
    assert sorted(peak.values()) == [300, 989.4]
    expected = 100 * sum(tflops[r] * devices[r] for r in peak) / sum(peak[r] * devices[r] for r in peak)
    assert float(fleet["value"][1]) == pytest.approx(expected, rel=1e-9)
    assert 0 < expected < max(by_run("trainmeter_mfu_pct").values())


def test_every_reading_is_labelled_with_its_run_and_node(prometheus):
    until(lambda: len(query(prometheus, "trainmeter_mfu_pct")) == 2)
    steps = query(prometheus, "trainmeter_rank_step")
    assert {each["metric"]["rank"] for each in steps} == {"0"}
    assert len({each["metric"]["run"] for each in steps}) == 2
    # Until the model was seen, every GPU that the job could use was watched.
    gpus = until(lambda: [each for each in [query(prometheus, 'trainmeter_ladder_4_ofu{gpu!=""}')] if len(each) == 1])[
        0
    ]
    assert gpus[0]["metric"]["gpu"] == "GPU-aaaa0001-0000-0000-0000-000000000001"
    assert float(gpus[0]["value"][1]) == pytest.approx(46.5 * 1740 / 1830, rel=0.01)
    assert all(each["metric"]["node"] for each in query(prometheus, "trainmeter_step"))


def test_the_dashboards_queries_are_understood_and_answered(prometheus):
    """Every expression of the Grafana dashboard, with its variables filled in."""
    until(lambda: query(prometheus, "trainmeter_ladder_4_ofu"))
    dashboard = json.loads((ROOT / "docs" / "grafana-dashboard.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    assert len(asked) >= 8
    for expression in asked:
        assert query(prometheus, expression.replace("$run", ".*").replace("$node", ".*")), expression
