"""`start` where it cannot: one line, and the program goes on; and in a notebook, where a process's lines are not seen."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from trainmeter_core import starting


@pytest.fixture(autouse=True)
def bare(monkeypatch, tmp_path):
    for name in ("TRAINMETER_SPOOL", "TRAINMETER_RUN", "TM", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TRAINMETER_HOME", str(tmp_path))


def a_python(tmp_path, *lines: str) -> str:
    path = tmp_path / "python"
    path.write_text("\n".join(("#!/bin/sh", *lines, "")))
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["echo this is no answer"], "trainmeter's own process did not start"),
        (["exit 3"], "trainmeter's own process did not start"),
        (["echo '[1]'"], "[1]"),
        (["""echo '{"problem": "no option x"}'"""], "no option x"),
    ],
)
def test_a_watcher_that_does_not_answer_costs_one_line(tmp_path, capsys, lines, said):
    before = dict(os.environ)
    assert starting.start(python=a_python(tmp_path, *lines)) is None
    told = capsys.readouterr().err
    assert said in told
    assert told.startswith("trainmeter: ")
    assert dict(os.environ) == before


def test_a_watcher_that_says_nothing_is_not_waited_for_for_ever(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(starting, "_STARTS_WITHIN_S", 0.05)
    assert starting.start(python=a_python(tmp_path, "exec sleep 60")) is None
    assert "did not start" in capsys.readouterr().err


def test_a_python_that_is_not_there_costs_one_line(capsys):
    assert starting.start(python="/nowhere/python") is None
    assert capsys.readouterr().err.startswith("trainmeter: not started: FileNotFoundError")


def test_without_a_stderr_nothing_is_said(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert starting.start(python="/nowhere/python") is None


def test_stop_without_a_start_does_nothing():
    starting.stop()


def test_in_a_notebook_pythons_own_stderr_has_the_lines(tmp_path):
    """What a process writes to the terminal behind a notebook is not shown in it."""
    program = """
import io, sys, types
class ZMQInteractiveShell: pass
sys.modules["IPython"] = types.SimpleNamespace(get_ipython=ZMQInteractiveShell)
shown, sys.stderr = sys.stderr, io.StringIO()
import trainmeter_core
assert trainmeter_core.start()
trainmeter_core.stop()
import time
until = time.monotonic() + 20
while "tm: " not in sys.stderr.getvalue() and time.monotonic() < until:
    time.sleep(0.05)
print(sys.stderr.getvalue())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert "tm: no Python with torch was seen" in done.stdout
