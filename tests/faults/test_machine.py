"""The machine fails under a run: full, out of descriptors, files gone, clocks wrong, processes killed, ranks by the dozen.

The program ends as it would without us: its exit code, every byte of its output, its weights bit for bit. What had been
measured is in the passport, unless the fault took away the very file that held it. Most programs here are forks of one,
with the agent in them, beside a reader that looks as often as `tm` does; torch is loaded once for all of them.
"""

from __future__ import annotations

import importlib
import json
import mmap
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.faults import hurt, tiny_training
from tests.faults.test_every_function import TAPS
from tests.known import known
from trainmeter_core.inside import guard, this_process
from trainmeter_core.inside.agent import Agent
from trainmeter_core.outside.drain import Drain
from trainmeter_core.outside.selftest.text import without
from trainmeter_core.passport.build import build
from trainmeter_core.passport.check import check
from trainmeter_core.runlog.read import read_run
from trainmeter_core.runlog.write import RunWriter

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
TM = [sys.executable, "-m", "trainmeter_core"]
ALL = tiny_training.STEPS
HANGS_AFTER_S = 60.0
# Here, not in the program: a machine without descriptors imports nothing.
INSTALL = {tap: importlib.import_module("trainmeter_core.inside.taps." + tap).install for tap in TAPS}


class Fork:
    """A program in a child of this process: its exit status and all that it printed, while a reader drains its spool."""

    def __init__(self, folder: Path, program, ranks: int = 1) -> None:
        self.spool = folder / "spool"
        self.spool.mkdir()
        (self.spool / "board").write_bytes(b"\0" * 65536)
        self._printed = os.pipe()
        self.records: list[dict] = []
        self._drain = Drain(str(self.spool), self.records.append)
        self.pids = [self._start(program, rank, ranks) for rank in range(ranks)]

    def _start(self, program, rank: int, ranks: int) -> int:
        pid = os.fork()
        if pid:
            return pid
        os.dup2(self._printed[1], 1)
        os.dup2(self._printed[1], 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
        code = 1
        try:
            os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK=str(rank))
            guard.STRICT = False
            program(self.spool)
            code = 0
        except Exception:  # noqa: BLE001 - the test shows it
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def ends(self) -> tuple[set[int], str]:
        """Drain until all have ended."""
        codes, left = set(), set(self.pids)
        until = time.monotonic() + HANGS_AFTER_S
        while left:
            if time.monotonic() > until:
                for pid in left:
                    os.kill(pid, signal.SIGKILL)
                pytest.fail("a program hangs")
            for pid in list(left):
                done, status = os.waitpid(pid, os.WNOHANG)
                if done:
                    left.remove(pid)
                    codes.add(os.waitstatus_to_exitcode(status))
            self._drain.poll()
            time.sleep(0.002)
        os.close(self._printed[1])
        with open(self._printed[0]) as printed:
            return codes, printed.read()

    def steps(self, folder: Path) -> int:
        """The steps in the passport of what was drained."""
        self._drain.finish()
        writer = RunWriter.create("train.py", ["train.py"], runs=folder)
        writer.append_many(self.records)
        writer.close()
        passport = build(read_run(writer.directory))
        assert check(passport) == []
        return (passport["data"]["steps"] or {}).get("value") or 0


def measured(spool: Path) -> None:
    """What `tm` puts into a program that imports torch."""
    agent = this_process._agent = Agent(str(spool))
    for tap, module in TAPS.items():
        agent.install(tap, INSTALL[tap], sys.modules[module])


def training(fault: str = "", first: bool = False, under_tm: bool = True):
    """A program that trains and prints its result; the fault comes first of all, or after the second step."""

    def program(spool: Path) -> None:
        if first:
            hurt.FAULTS[fault](spool)
        if under_tm:
            measured(spool)

        def log(step, _values):
            if step == 1 and fault and not first:
                time.sleep(0.1)  # the reader has been here since
                hurt.FAULTS[fault](spool)

        print(json.dumps(tiny_training.train(log)))
        this_process._finish()

    return program


@pytest.fixture(scope="module")
def bare(tmp_path_factory) -> tuple[set[int], str]:
    tiny_training.train()  # what torch loads at its first step is loaded for all
    found = Fork(tmp_path_factory.mktemp("bare"), training(under_tm=False)).ends()
    assert found[0] == {0}
    return found


@pytest.mark.parametrize("first", [False, True], ids=["in the middle", "from the start"])
@pytest.mark.parametrize("fault", hurt.FAULTS)
def test_a_machine_that_fails_costs_the_program_nothing(fault, first, tmp_path, bare, faults):
    if first and fault not in hurt.AT_FIRST:
        return
    faults.injected()
    fork = Fork(tmp_path, training(fault, first))
    assert fork.ends() == bare
    if not first:
        expected = 0 if fault == "the ring is garbage" else ALL
        steps = fork.steps(tmp_path)
        faults.lost(max(0, expected - steps))
        assert steps >= expected
    faults.survived()


def test_64_ranks_are_measured_each(tmp_path, bare, faults):
    faults.injected(64)
    fork = Fork(tmp_path, training(), ranks=64)
    codes, printed = fork.ends()
    assert (codes, set(printed.splitlines(keepends=True))) == ({0}, {bare[1]})
    ends = {(record["rank"], record["last"]) for record in fork.records if record["type"] == "steps" and record["n"]}
    assert {rank for rank, last in ends if last == ALL} == set(range(64))
    faults.survived(64)


def test_a_rank_killed_at_a_random_moment_leaves_every_step_that_it_had_made(tmp_path, faults):
    """The program counts its steps in memory that it shares with the test, right after each."""
    chance = random.Random(0)
    counted = mmap.mmap(-1, 8)

    def program(spool: Path) -> None:
        measured(spool)
        made = 0

        def log(_step, _values):
            nonlocal made
            made += 1
            counted[:8] = made.to_bytes(8, "little")

        while True:
            tiny_training.train(log)

    for number in range(20):
        faults.injected()
        folder = tmp_path / str(number)
        folder.mkdir()
        counted[:8] = bytes(8)
        fork = Fork(folder, program)
        time.sleep(chance.uniform(0, 0.15))
        os.kill(fork.pids[0], signal.SIGKILL)
        assert fork.ends() == ({-signal.SIGKILL}, "")
        made = int.from_bytes(counted[:8], "little")
        steps = fork.steps(folder)
        faults.lost(max(0, made - steps))
        assert made <= steps <= made + 1
        faults.survived()


def test_ten_thousand_log_calls_a_second_are_all_the_users(tmp_path, faults):
    """Each call, as fast as it goes, through the real writer with the tap around it: the same events as without."""
    from torch.utils.tensorboard import SummaryWriter

    from trainmeter_tb import plugin
    from trainmeter_tb.users import users_data

    def program(tapped: bool):
        def run(spool: Path) -> None:
            if tapped:
                measured(spool)
                tracker = sys.modules["tensorboard.summary.writer.event_file_writer"]
                plugin.install_tap(tracker, known(this_process._agent).publish())
            with SummaryWriter(str(spool.parent / "tb")) as writer:
                tiny_training.train()
                for step in range(10_000):
                    writer.add_scalar("loss", step / 7, step)
            this_process._finish()

        return run

    contents = []
    for tapped in (False, True):
        faults.injected(int(tapped))
        folder = tmp_path / str(tapped)
        folder.mkdir()
        assert Fork(folder, program(tapped)).ends() == ({0}, "")
        contents.append([data.content for data in users_data(str(folder))])
    assert contents[0] == contents[1]
    faults.survived()


# --- the whole of tm --------------------------------------------------------------------------------------------------


def environment(home: Path) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("TRAINMETER_")}
    return {**env, "TRAINMETER_HOME": str(home), "OMP_NUM_THREADS": "1"}


def under_tm(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    command = [
        *TM,
        "--no-web",
        "--transcript",
        str(folder / "said"),
        "--",
        sys.executable,
        str(HERE / "hurt.py"),
        *words,
    ]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(folder / "home"), cwd=folder
    )


def passport(folder: Path) -> dict:
    """The passport of the one run, as `tm passport` gives it."""
    [run] = (folder / "home" / "runs").iterdir()
    done = subprocess.run([*TM, "passport", "--json", str(run)], capture_output=True, env=environment(folder / "home"))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_run_whose_tm_is_killed_goes_on_and_nothing_of_it_is_lost(tmp_path, bare, faults):
    faults.injected()
    process = under_tm(tmp_path, "tm")
    stdout, stderr = process.communicate(timeout=240)
    assert (process.returncode, stdout.decode(), stderr) == (-signal.SIGKILL, bare[1], b"")
    subprocess.run([*TM, "recover", "--quiet"], env=environment(tmp_path / "home"), check=True)
    assert passport(tmp_path)["data"]["steps"]["value"] == ALL
    faults.survived()


def test_a_program_that_is_killed_under_tm_leaves_its_steps_in_the_passport(tmp_path, faults):
    faults.injected()
    process = under_tm(tmp_path, "itself")
    stdout, stderr = process.communicate(timeout=240)
    said = [json.loads(line).encode() for line in (tmp_path / "said").read_text().splitlines()]
    assert (process.returncode, stdout, without(stderr, said)) == (-signal.SIGKILL, b"", b"")
    found = passport(tmp_path)
    assert (found["data"]["steps"]["value"], found["ends"]["how"]) == (2, "killed")
    faults.survived()


def test_a_home_that_cannot_be_written_costs_the_program_nothing(tmp_path, faults):
    """A full disk where the rights to mount one are here, else a file in its place."""
    faults.injected()
    home = tmp_path / "home"
    home.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "none", str(home)], capture_output=True)
    if mounted.returncode:
        home.rmdir()
        home.write_text("")
    try:
        command = [*TM, "--no-web", "--", sys.executable, "-c", "print('trained')"]
        done = subprocess.run(command, capture_output=True, env=environment(home))
        assert (done.returncode, done.stdout) == (0, b"trained\n")
        assert b"the run log stopped" in done.stderr
    finally:
        if not mounted.returncode:
            subprocess.run(["umount", str(home)], check=True)
    faults.survived()


def directories_in_place(run):
    for name in ("passport.json", "passport.md", "snapshot.json", ".log.jsonl.new"):
        (run / name).mkdir()


RUN_FAULTS: dict[str, Callable[[Path], object]] = {
    "the run directory is removed": shutil.rmtree,
    "the run directory becomes a file": hurt.replace_by_file,
    "pipes stand in the run directory": lambda run: [pipe_in_place(path) for path in run.iterdir()],
    "all runs are moved away": lambda run: run.parent.rename(run.parent.parent / "elsewhere"),
    "directories stand in the place of what is written last": directories_in_place,
}


def pipe_in_place(path):
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("fault", RUN_FAULTS)
def test_a_run_directory_that_is_taken_away_costs_the_program_nothing(fault, tmp_path, faults):
    """Nor does a client of /metrics that asks for nothing, nor a git that does not answer."""
    faults.injected()
    (tmp_path / "bin").mkdir()
    git = tmp_path / "bin" / "git"
    git.write_text("#!/bin/sh\nexec sleep 1000\n")
    git.chmod(0o755)
    env = environment(tmp_path / "home")
    words = [
        "import os, sys",
        "print(os.environ['TRAINMETER_RUN'], flush=True)",
        "sys.stdin.read()",
        "print('trained')",
    ]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [*TM, "--no-web", "--metrics-port", str(port), "--", sys.executable, "-c", "; ".join(words)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path,
        env={**env, "PATH": f"{tmp_path / 'bin'}:{env['PATH']}"},
    )  # fmt: skip
    assert process.stdout is not None
    run = Path(process.stdout.readline().decode().strip())
    with socket.create_connection(("127.0.0.1", port)):
        time.sleep(0.7)  # tm has looked once
        RUN_FAULTS[fault](run)
        stdout, _ = process.communicate(timeout=HANGS_AFTER_S)
    assert (process.returncode, stdout) == (0, b"trained\n")
    faults.survived()
