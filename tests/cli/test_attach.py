"""`tm attach` watches a program that somebody else started, and the program does not feel it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.fakes.nvml import fake_nvml
from tests.known import known
from trainmeter_core.passport.check import check
from trainmeter_core.passport.schema import problems

TM = str(Path(sys.executable).with_name("tm"))

WORKER = """
import os, signal, subprocess, sys, threading, time
seen = []
for number in range(1, signal.NSIG):
    if number not in (signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD):
        try:
            signal.signal(number, lambda n, _: seen.append(n))
        except (OSError, ValueError):
            pass
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
print("ready", flush=True)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    with open(sys.argv[2], "wb") as file:
        file.write(os.urandom(1 << 20))
        os.fsync(file.fileno())
    sum(range(100000))
child.stdin.close()
child.wait()
print("saw", seen)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if fake_nvml.compiler() is None:
        pytest.skip("no C compiler to build the fake driver library with")
    return fake_nvml.build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def worker(tmp_path):
    started = []

    def start(seconds, **environ):
        path = tmp_path / "worker.py"
        path.write_text(textwrap.dedent(WORKER))
        command = [sys.executable, str(path), str(seconds), str(tmp_path / "data"), "--api-key", "hunter2-hunter2"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **environ})
        started.append(process)
        assert known(process.stdout).readline() == "ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def env_for(tmp_path, library, machine="h200x2"):
    return fake_nvml.environment(library, machine, TRAINMETER_HOME=str(tmp_path / "home"))


def left(tmp_path):
    (directory,) = (tmp_path / "home" / "runs").iterdir()
    log = [json.loads(line) for line in (directory / "log.jsonl").read_text().splitlines()]
    return log, json.loads((directory / "passport.json").read_text())


def test_a_program_is_watched_to_its_end_without_a_signal(worker, library, tmp_path):
    process = worker(4, CUDA_VISIBLE_DEVICES="GPU-aaaa0001-0000-0000-0000-000000000001")
    done = subprocess.run(
        [TM, "attach", str(process.pid)], env=env_for(tmp_path, library), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "the program ended" in done.stderr
    assert process.communicate()[0] == "saw []\n", "no signal reached it"
    log, passport = left(tmp_path)
    node = [record["readings"] for record in log if record["type"] == "node"]
    assert max(reading["process/count"] for reading in node) == 2, "it and its child"
    assert max(reading["process/threads"] for reading in node) >= 3
    assert max(reading.get("process/cpu_pct", 0) for reading in node) > 1
    assert max(reading.get("process/write_bytes_per_s", 0) for reading in node) > 1000
    assert min(reading["process/rss_bytes"] for reading in node[:-1]) > 1 << 20
    (gpu,) = passport["readings"]["gpus"].values()
    assert gpu["tensor_active_pct"]["mean"]["value"] == pytest.approx(46.5, rel=0.01)
    assert [each["name"] for each in passport["hardware"]["gpus"]] == ["NVIDIA H200"]
    assert passport["energy"]["gpu_kwh"]["value"] > 0
    assert problems(passport) == []
    assert check(passport) == []


def test_the_passport_says_why_there_is_no_exit_code_and_hides_secrets(worker, library, tmp_path):
    process = worker(1.5)
    subprocess.run([TM, "attach", str(process.pid)], env=env_for(tmp_path, library, "a100"), timeout=60, check=True)
    _, passport = left(tmp_path)
    reasons = {gap["field"]: gap["reason"] for gap in passport["gaps"]}
    assert reasons["ends.how"] == "watched from outside, where an exit code is not to be seen"
    assert passport["identity"]["script"].endswith("worker.py")
    assert "hunter2" not in json.dumps(passport)


def test_ctrl_c_ends_the_watching_and_not_the_program(worker, library, tmp_path):
    process = worker(60)
    watcher = subprocess.Popen(
        [TM, "attach", str(process.pid)], env=env_for(tmp_path, library), stderr=subprocess.PIPE, text=True
    )
    assert "watching" in known(watcher.stderr).readline()
    time.sleep(1.5)
    watcher.send_signal(signal.SIGINT)
    assert "not watching any more" in known(watcher.stderr).read()
    assert watcher.wait(timeout=30) == 0
    assert process.poll() is None
    log, passport = left(tmp_path)
    assert any(record["type"] == "gpu" for record in log)
    assert problems(passport) == []


def test_a_program_that_tm_started_is_not_watched_twice(worker, tmp_path):
    process = worker(30, TRAINMETER_RUN="/runs/of-tm")
    done = subprocess.run([TM, "attach", str(process.pid)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr == f"tm: {process.pid} runs under tm already; its run directory is /runs/of-tm\n"


def test_a_process_that_is_not_there_is_one_clear_line():
    done = subprocess.run([TM, "attach", "999999999"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (1, "tm: no process 999999999 on this node\n")
