"""Runs whose `tm` was killed: carries over what the agents left, and writes the passport."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from trainmeter_core.json_text import parse
from trainmeter_core.readings import Absent
from trainmeter_core.runlog.format import LOG_FILE, PASSPORT_FILE, RUN_FILE
from trainmeter_core.runlog.locate import all_runs
from trainmeter_core.runlog.write import RunWriter, has_writer

from .spool import noted_positions, of_other_runs, spool_left_by

if TYPE_CHECKING:
    from pathlib import Path

# A run that ended without a passport longer ago than so many others is left to `tm recover RUN_DIR`.
_NEWEST = 50
# Where locks do not reach another node, a run goes on there as long as its log grows, once a second.
_REST_S = 60.0


class Recovered(NamedTuple):
    """What became of a run: steps found in its spool, and its passport."""

    steps: int
    passport: dict[str, Any]


def unfinished() -> list[Path]:
    """The newest run directories without a passport that nobody writes to any more, oldest first."""
    return [
        run
        for run in all_runs()[-_NEWEST:]
        if not (run / PASSPORT_FILE).exists() and (run / LOG_FILE).is_file() and not has_writer(run)
    ]


def recover(directory: Path) -> Recovered:
    """Carry over the spool, write the passport, and remove the spool.

    Raises ValueError with one line when the run still goes on, has its end already, or is no run directory.
    """
    from trainmeter_core.passport import card
    from trainmeter_core.passport.build import build
    from trainmeter_core.passport.markdown import render
    from trainmeter_core.runlog.read import RunReader

    if not (directory / LOG_FILE).is_file() or not (directory / RUN_FILE).is_file():
        raise ValueError(f"{directory} is not a run directory: it has no {LOG_FILE} or no {RUN_FILE}")
    try:
        writer = RunWriter.reopen(directory, directory.name.rpartition("-")[2])
    except BlockingIOError as error:
        raise ValueError(f"{directory.name} is still running under tm") from error
    try:
        known = RunReader(directory).finish()
        if isinstance(known.identity.run_id, str):
            writer.run_id = known.identity.run_id
        ended = not (isinstance(known.end.code, Absent) and isinstance(known.end.signal, Absent))
        spool = None if ended else spool_left_by(writer.run_id)
        steps = 0
        if spool is not None:
            pid = _trainer_alive(spool)
            if pid is not None:
                raise ValueError(f"the program of {directory.name} still runs (process {pid}), without its tm")
            steps = _carry_over(spool, directory, writer)
            writer.append("recovered", steps=steps)
        passport = build(RunReader(directory).finish())
        tags, pictures = card.picture_tags(passport, "passport"), card.pictures_of(passport, "passport")
        writer.write_passport(passport, render(passport, tags), pictures)
    finally:
        problem = writer.problem
        writer.close()
    if problem is not None:
        raise ValueError(f"cannot write: {problem}")
    if spool is not None:
        shutil.rmtree(spool, ignore_errors=True)
    return Recovered(steps, passport)


def _carry_over(spool: str, directory: Path, writer: RunWriter) -> int:
    from .drain import Drain

    records: list[dict[str, Any]] = []
    drain = Drain(spool, records.append)
    drain.resume(noted_positions(spool), _last_steps(directory))
    drain.finish()
    drain.close()
    # A command of several trainings: the others' logs have all but the last second.
    others = of_other_runs(spool)
    records = [record for record in records if record.get("pid") not in others]
    writer.append_many(records)
    return sum(record["n"] for record in records if record.get("type") == "steps")


def _last_steps(directory: Path) -> dict[tuple[int, int], tuple[float, int]]:
    """End and last step of the last logged block of every process: what the rings hold up to then is in the log."""
    from trainmeter_core.runlog.read import lines

    last: dict[tuple[int, int], tuple[float, int]] = {}
    for line, _ in lines(directory / LOG_FILE):
        if line is None or not line.startswith(b'{"type":"steps"'):
            continue
        with contextlib.suppress(ValueError, KeyError, TypeError):  # a torn or damaged line
            block = parse(line)
            last[block["rank"], block["pid"]] = float(block["t"]), int(block["last"])
    return last


def _trainer_alive(spool: str) -> int | None:
    """The process that still has a ring of this spool mapped; a number alone could be another process by now."""
    for name in os.listdir(spool):
        stem, _, ending = name.rpartition(".")
        pid = stem.rpartition("-")[2]
        if ending != "ring" or not pid.isdigit():
            continue
        try:
            with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps:
                if any(os.path.join(spool, name) in line for line in maps):
                    return int(pid)
        except OSError:
            # Ended, or another user's process with the same number.
            continue
    return None


def recover_in_background() -> None:
    """Start a `tm recover` of its own when there is anything to do; the command that was asked for does not wait."""
    try:
        runs = [run for run in unfinished() if time.time() - (run / LOG_FILE).stat().st_mtime > _REST_S]
        if not runs:
            return
        subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-m", "trainmeter_core", "recover", "--quiet", *map(str, runs)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        # The state directory cannot be read, or no process can be started: the next run tries again.
        return
