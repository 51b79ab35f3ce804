"""A command that starts several trainings: a run directory, a passport and a line for each."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from trainmeter_core.passport.check import check
from trainmeter_core.passport.schema import problems
from trainmeter_core.runlog.locate import all_runs, latest_run

TRAIN = """
import sys, time, torch
torch.set_num_threads(1)
steps = int(sys.argv[1])
layer = torch.nn.Embedding(8, 4)
optimizer = torch.optim.Adam(layer.parameters())
for step in range(steps):
    layer(torch.ones(2, 4, dtype=torch.long)).sum().backward()
    optimizer.step()
time.sleep(float(sys.argv[2]) if len(sys.argv) > 2 else 0)
"""
POOL = """
import subprocess, sys
train = [sys.executable, sys.argv[1]]
side_by_side = [subprocess.Popen([*train, steps, "3"]) for steps in ("3", "4")]
assert [one.wait() for one in side_by_side] == [0, 0]
"""
# Fails after its fifth step where there is no checkpoint of its third yet.
AGAIN = """
import os, sys, torch
torch.set_num_threads(1)
layer = torch.nn.Embedding(8, 4)
optimizer = torch.optim.Adam(layer.parameters())
start = 0
if os.path.exists(sys.argv[1]):
    state = torch.load(sys.argv[1])
    optimizer.load_state_dict(state["optimizer"])
    start = 3
for step in range(start, 8):
    layer(torch.ones(2, 4, dtype=torch.long)).sum().backward()
    optimizer.step()
    if step == 2:
        torch.save({"optimizer": optimizer.state_dict()}, sys.argv[1])
    if step == 4 and start == 0:
        sys.exit(1)
"""


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setenv("TRAINMETER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture
def tm_run(tm):
    def run(*words):
        done = subprocess.run([*tm, "--no-web", *words], stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return [line for line in done.stderr.splitlines() if " · passport " in line]

    return run


def passports():
    found = []
    for run in all_runs():
        passport = json.loads((run / "passport.json").read_text())
        assert problems(passport) == []
        assert check(passport) == []
        found.append(passport)
    return found


def steps(passport):
    return passport["data"]["steps"]["value"]


def test_a_shells_trainings_one_after_another_have_a_run_directory_each(tm_run, program, tmp_path):
    train = program(TRAIN, "train.py")
    other = program(TRAIN, "other.py")
    lines = tm_run("--", "bash", "-c", f"{sys.executable} {train} 3 && {sys.executable} {other} 5")
    one, two = passports()
    assert (steps(one), steps(two)) == (3, 5)
    assert [one["time"]["restarts"]["value"], two["time"]["restarts"]["value"]] == [0, 0]
    assert two["identity"]["script"] == other
    assert two["identity"]["command"][-2:] == [other, "5"]
    assert latest_run().name.partition("-")[2].startswith("other-")
    assert [line.split(" · ")[0] for line in lines] == ["tm: 3 steps", "tm: 5 steps"]
    assert [line.split(" · passport ")[1] for line in lines] == [str(run / "passport.md") for run in all_runs()]
    assert json.loads((latest_run() / "run.json").read_text())["beside"] == one["identity"]["run_id"]
    for run in all_runs():
        kinds = {json.loads(line)["type"] for line in (run / "log.jsonl").read_text().splitlines()}
        assert kinds >= {"process", "model", "steps", "node", "hardware", "exit"}


def test_metrics_have_the_id_of_the_training_that_is_under_way(tm, program):
    """One after another: what was served of the first is gone once the second is under way."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    train, other = program(TRAIN, "train.py"), program(TRAIN, "other.py")
    loop = f"{sys.executable} {train} 3 2 && {sys.executable} {other} 5 4"
    words = [*tm, "--no-web", "--quiet", "--metrics-port", str(port), "--", "bash", "-c", loop]
    process = subprocess.Popen(words)
    try:
        first, second = served(port, 3, process), served(port, 5, process)
    finally:
        assert process.wait() == 0
    one, two = (run.name.rpartition("-")[2] for run in all_runs())
    assert (first, second) == ({one}, {two})


def served(port, step, process):
    """The ids on everything at /metrics once it has this step, and the runs that have steps."""
    while process.poll() is None:
        time.sleep(0.1)
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as told,
        ):
            text = told.read().decode()
            if re.search(rf"^trainmeter_step{{.*}} {step}\.0$", text, re.MULTILINE):
                return set(re.findall(r'run="(\w+)"', text))
    raise AssertionError("it was never served")


def test_trainings_side_by_side_are_told_apart(tm_run, program):
    lines = tm_run(program(POOL, "pool.py"), program(TRAIN, "train.py"))
    assert sorted(steps(passport) for passport in passports()) == [3, 4]
    assert len(lines) == 2


def test_a_loop_that_starts_a_failed_training_again_goes_on_with_its_run(tm_run, program, tmp_path):
    again = program(AGAIN, "again.py")
    tm_run("--", "bash", "-c", f"until {sys.executable} {again} {tmp_path / 'c.pt'}; do :; done")
    (passport,) = passports()
    assert steps(passport) == 10
    assert passport["time"]["restarts"]["value"] == 1
    assert passport["time"]["lost_steps"]["value"] == 2


def test_a_training_that_came_to_rest_wakes_again(tm_run, program, tmp_path):
    """Its passport was written while the loop waited; the whole one takes its place."""
    train, again = program(TRAIN, "train.py"), program(AGAIN, "again.py")
    loop = f"until {sys.executable} {again} {tmp_path / 'c.pt'}; do sleep 4; done"
    lines = tm_run("--", "bash", "-c", f"{sys.executable} {train} 3; {loop}")
    assert sorted(steps(passport) for passport in passports()) == [3, 10]
    assert passports()[1]["time"]["restarts"]["value"] == 1
    assert passports()[1]["observation"]["failures"] == []
    log = (all_runs()[1] / "log.jsonl").read_text()
    assert log.count('"type":"exit"') == 2
    assert len(lines) == 2


def test_a_process_that_never_trains_leaves_one_run(tm_run, program):
    helper = program("import torch\n", "helper.py")
    train = program(TRAIN, "train.py")
    lines = tm_run(
        "--", "bash", "-c", f"{sys.executable} {helper}; {sys.executable} {train} 3; {sys.executable} {helper}"
    )
    (passport,) = passports()
    assert steps(passport) == 3
    assert passport["ends"]["how"] == "finished"
    assert len(lines) == 1


def test_ranks_of_one_launcher_share_a_run_and_the_next_launcher_has_its_own(tm_run, program):
    ddp = program(
        """
        import sys, torch, torch.distributed as dist
        torch.set_num_threads(1)
        dist.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(int(sys.argv[1])):
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
        dist.destroy_process_group()
        """,
        "ddp.py",
    )
    launch = f"{sys.executable} -m torch.distributed.run --nproc_per_node=2 --master_port={29600 + os.getpid() % 300}"
    tm_run("--", "bash", "-c", f"{launch} {ddp} 3 && {launch} {ddp} 4")
    assert [(steps(each), each["hardware"]["ranks_seen"]["value"]) for each in passports()] == [(3, 2), (4, 2)]
    assert [each["time"]["restarts"]["value"] for each in passports()] == [0, 0]
