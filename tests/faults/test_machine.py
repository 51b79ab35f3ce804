"""The machine fails under a run: full, out of descriptors, files gone, clocks wrong, processes killed, ranks by the dozen.

The program ends as it would without us: its exit code, every byte of its output, its weights bit for bit. What had been
measured is in the passport, unless the fault took away the very file that held it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tiny_training

from trainmeter_core.outside.selftest.text import without
from trainmeter_core.passport.check import check

HERE = Path(__file__).parent
TM = [sys.executable, "-m", "trainmeter_core", "--no-web"]
ALL = tiny_training.STEPS

# What the passport must hold of the steps: all, those up to the fault (the second step), or whatever there is.
FAULTS = {
    "the spool is removed": ALL,
    "the spool becomes a file": ALL,
    "the run directory is removed": None,
    "no descriptors are left": ALL,
    "no descriptors are left from the start": 0,
    "no file may grow": ALL,
    "no file may grow from the start": 0,
    "the clock jumps back": ALL,
    "the clock jumps ahead": ALL,
    "the clock is no number": ALL,
    "a hundred forks": ALL,
    "64 ranks": ALL,
    "side files are emptied": ALL,
    "side files are garbage": ALL,
    "the ring is garbage": 0,
    "the board is garbage": ALL,
}


def environment(home: Path) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("TRAINMETER_")}
    return {**env, "TRAINMETER_HOME": str(home), "OMP_NUM_THREADS": "1"}


def start(home: Path, *words: str, before: list[str] = TM) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*before, "--transcript", str(home.parent / "said"), str(HERE / "hurt.py"), *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(home), cwd=home.parent,
    )  # fmt: skip


def ends(process: subprocess.Popen[bytes], home: Path) -> tuple[int, bytes, bytes]:
    """Exit code, stdout, and stderr without what tm says."""
    stdout, stderr = process.communicate(timeout=120)
    said = home.parent / "said"
    lines = [json.loads(line).encode() for line in said.read_text().splitlines()] if said.exists() else []
    return process.returncode, stdout, without(stderr, lines)


def passport(home: Path) -> dict | None:
    """The run's passport, as `tm passport` gives it."""
    runs = list((home / "runs").glob("*/"))
    if not runs or not (runs[0] / "run.json").exists():
        return None
    done = subprocess.run([*TM[:3], "passport", "--json", str(runs[0])], capture_output=True, env=environment(home))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert check(found) == []
    return found


def bare() -> bytes:
    return json.dumps(tiny_training.train()).encode() + b"\n"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_machine_that_fails_costs_the_program_nothing(fault, tmp_path, faults):
    faults.injected()
    home = tmp_path / "home"
    assert ends(start(home, fault), home) == (0, bare(), b"")
    steps = FAULTS[fault]
    found = passport(home)
    if steps is not None:
        told = (found["data"]["steps"] or {}).get("value", 0)
        if told < steps:
            faults.lost(steps - told)
        assert told >= steps
    faults.survived()


def test_a_run_whose_tm_is_killed_goes_on_and_its_passport_is_written_later(tmp_path, faults):
    """tm's own end is no end of the program's: it is measured to its last step, and `tm recover` finds that."""
    faults.injected()
    home = tmp_path / "home"
    process = start(home, "tm is killed")
    stdout, stderr = process.communicate(timeout=120)
    assert (process.returncode, stdout, stderr) == (-signal.SIGKILL, bare(), b"")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        subprocess.run([*TM[:3], "recover", "--quiet"], env=environment(home))
        found = passport(home)
        if found["data"]["steps"] and found["data"]["steps"]["value"] == ALL:
            break
        time.sleep(0.5)
    assert found["data"]["steps"]["value"] == ALL
    faults.survived()


@pytest.mark.parametrize("at", range(ALL))
def test_a_program_that_is_killed_leaves_all_steps_up_to_then(at, tmp_path, faults):
    faults.injected()
    home = tmp_path / "home"
    assert ends(start(home, "the program is killed", str(at)), home) == (-signal.SIGKILL, b"", b"")
    found = passport(home)
    lost = at + 1 - (found["data"]["steps"] or {"value": 0})["value"]
    faults.lost(lost)
    assert lost == 0
    assert found["end"]["signal"] == signal.SIGKILL
    faults.survived()


def test_tm_killed_at_random_moments_is_not_felt_by_the_program(tmp_path, faults):
    """Also while it starts, before the program does."""
    chance = random.Random(0)
    for number in range(3):
        faults.injected()
        home = tmp_path / str(number) / "home"
        home.parent.mkdir()
        process = start(home, "none")
        time.sleep(chance.uniform(0.3, 3))
        process.kill()
        stdout, stderr = process.communicate(timeout=120)
        assert stdout in (bare(), b""), "the whole of it, or the program never began"
        assert not [line for line in stderr.splitlines() if not line.startswith(b"tm: ")]
        faults.survived()


@pytest.mark.parametrize("kind", ["a file in its place", "a full disk"])
def test_a_home_that_cannot_be_written_costs_the_program_nothing(kind, tmp_path, faults):
    faults.injected()
    home = tmp_path / "home"
    full = kind == "a full disk"
    if full:
        home.mkdir()
        full = (
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "none", str(home)], capture_output=True).returncode
            == 0
        )
    if not full:  # no right to mount here
        if home.is_dir():
            home.rmdir()
        home.write_text("")
    try:
        assert ends(start(home, "none"), home) == (0, bare(), b"")
        assert "the run log stopped" in (tmp_path / "said").read_text()
    finally:
        if full:
            subprocess.run(["umount", str(home)], check=True)
    faults.survived()
