"""`tm view`: where a run can be looked at, and a viewer for one that has no tracker."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request

import pytest

from tests.known import known
from trainmeter_core.runlog.write import RunWriter
from trainmeter_tb.local import LocalEvents

TM = [sys.executable, "-m", "trainmeter_core", "view"]
QUIET = {"DISPLAY": "", "WAYLAND_DISPLAY": "", "BROWSER": ""}


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TRAINMETER_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def a_run(*trackers):
    """A run directory with the tracker records given as (name, place)."""
    writer = RunWriter.create("train", ["python", "train.py"])
    for name, place in trackers:
        writer.append("tracker", rank=0, tracker=name, where=place)
    writer.close()
    return writer.directory


def view(*words, **env):
    return subprocess.run(
        [*TM, *words], capture_output=True, text=True, timeout=120, env={**os.environ, **QUIET, **env}
    )


def test_the_page_of_a_tracker_is_printed_and_nothing_is_started(home):
    run = a_run(("wandb", {"url": "https://wandb.ai/me/p/runs/1", "run_id": "1", "project": "p", "entity": "me"}))
    done = view(run.name)
    assert done.returncode == 0, done.stderr
    assert "https://wandb.ai/me/p/runs/1" in done.stdout


def test_the_page_is_opened_in_the_browser_unless_told_not_to(home, tmp_path):
    """$BROWSER is the user's own choice of one."""
    a_run(("wandb", {"url": "https://wandb.ai/me/p/runs/1", "run_id": "1", "project": "p", "entity": "me"}))
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {tmp_path}/opened\n')
    browser.chmod(0o755)
    assert view("--no-browser", BROWSER=f"{browser} %s").returncode == 0
    assert not (tmp_path / "opened").exists()
    assert view(BROWSER=f"{browser} %s").returncode == 0
    assert (tmp_path / "opened").read_text() == "https://wandb.ai/me/p/runs/1\n"


def test_a_run_with_nothing_to_show_costs_one_line(home):
    assert view().stderr.startswith("tm view: no run yet in ")
    run = a_run()
    done = view()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"tm view: {run.name} has no tracker and left no files of its own; `tm export`")
    done = view("nonsense")
    assert done.returncode == 2
    assert done.stderr.startswith("tm view: no run named 'nonsense'")


def test_a_log_directory_that_is_gone_leaves_the_command(home):
    a_run(("tensorboard", {"logdir": "/gone away"}))
    done = view()
    assert done.returncode == 0, done.stderr
    assert done.stdout == "tensorboard --logdir '/gone away'\n"


def answered(url):
    """The answer, once the server has read the files: it listens before that."""
    for _ in range(300):
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)
        time.sleep(0.2)
    raise AssertionError(f"no answer from {url}")


@pytest.mark.parametrize("own", [True, False])
def test_a_run_without_a_page_is_replayed_until_ctrl_c(home, tmp_path, own):
    """From its own files or the user's log directory: the viewer has its series, and is gone with `tm view`."""
    logdir = tmp_path / "logs"
    files = LocalEvents(str(logdir if own else a_run() / "tb"))
    if own:
        a_run(("tensorboard", {"logdir": str(logdir)}))
    files.write({"trainmeter/step": 7.0, "trainmeter/mfu_pct": 41.5}, 7, 1_760_000_000.0)
    files.close("# Passport")
    process = subprocess.Popen([*TM, "--port", "7600"], stdout=subprocess.PIPE, text=True, env={**os.environ, **QUIET})
    try:
        if own:
            assert known(process.stdout).readline() == f"tensorboard --logdir {logdir}\n"
        line = known(process.stdout).readline()
        found = re.match(r"(http://127\.0\.0\.1:76\d\d)/#trainmeter  \(Ctrl-C ends it\)\n", line)
        assert found, line
        server = f"{found[1]}/data"
        points = answered(f"{server}/plugin/scalars/scalars?run=.&tag=trainmeter/step")
        assert [value for _time, _step, value in points] == [7.0]
        assert "trainmeter" in answered(f"{server}/plugins_listing")
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)
    assert process.returncode == 0
    with pytest.raises(OSError):
        urllib.request.urlopen(server, timeout=5)
