"""Finds the run that a command goes on with: asked for, a job that was queued again, or a tracker's run."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from trainmeter_core.passport.redact import redact_command, redact_text
from trainmeter_core.plain_files import opener
from trainmeter_core.plugins import managers
from trainmeter_core.readings import Absent
from trainmeter_core.runlog.format import PASSPORT_FILE, PASSPORT_MARKDOWN_FILE, RUN_FILE
from trainmeter_core.runlog.locate import all_runs, find_run
from trainmeter_core.runlog.write import RunWriter, has_writer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from trainmeter_core.plugins import FoundPlugin
    from trainmeter_core.run_record import RunRecord

LATEST = "latest"
# A job that waits longer in the queue than so many other runs take goes on with --resume RUN.
_NEWEST = 100


class Job(NamedTuple):
    """A name under which the run is known outside: the same name is the same run.

    `again` says that this command means to go on with it; `finished` whether also with one that has finished.
    """

    name: str
    again: bool
    finished: bool
    how: str


class Earlier(NamedTuple):
    """The run to go on with, how that is known, and what its log came to so far."""

    writer: RunWriter
    how: str
    record: RunRecord


def jobs_of(environ: Mapping[str, str], plugins: Iterable[FoundPlugin]) -> list[Job]:
    """The names that a launcher or a tracker has for this run."""
    found = []
    for _name, manager in managers(plugins):
        with contextlib.suppress(Exception):  # a third party's adapter
            for told in manager.hook.same_run(base=environ):
                name, again = told
                found.append(Job(name, again, True, f"the tracker's run {name}"))
    elastic = environ.get("TORCHELASTIC_RUN_ID", "none")
    if elastic != "none":  # started inside of a rank that torchrun started: under tm itself there is none
        again = environ.get("TORCHELASTIC_RESTART_COUNT", "0") not in ("", "0")
        name = f"torchelastic:{elastic}.{environ.get('GROUP_RANK', '0')}"
        found.append(Job(name, again, False, f"job {elastic} of torchrun, started again"))
    job = environ.get("SLURM_JOB_ID")
    if job:
        again = environ.get("SLURM_RESTART_COUNT", "0") not in ("", "0")
        task = environ.get("SLURM_PROCID", "0")
        found.append(Job(f"slurm:{job}.{task}", again, False, f"job {job} of Slurm, queued again"))
    return found


def asked_for(ref: str, script: str) -> Path | None:
    """The run of ``--resume``: `latest` is the newest one of this script, None where there is none.

    Raises LookupError or ValueError with one line for anything else that is not there, or that still goes on.
    """
    if ref == LATEST:
        found = next((run for run in reversed(all_runs()) if _about(run).get("script") == redact_text(script)), None)
    else:
        found = find_run(ref)
    if found is not None and has_writer(found):
        raise ValueError(f"{found.name} still goes on")
    return found


def run_of_job(jobs: Sequence[Job], command: Sequence[str], script: str) -> tuple[Path, str] | None:
    """The newest run that one of the jobs goes on with, and how that is known; one that still goes on is another.

    Of a job of a launcher it is the run of the same command, or the only one of the same script: a job script may add
    an argument when it runs again. A run that has finished is not gone on with there.
    """
    for job in (job for job in jobs if job.again):
        known = [(run, about) for run, about in _newest_first() if job.name in (about.get("jobs") or ())]
        if job.finished:
            fits = known
        else:
            words, name = redact_command(command), redact_text(script)
            same_script = [each for each in known if each[1].get("script") == name]
            same = [each for each in same_script if each[1].get("command") == words]
            fits = same if same or len(same_script) > 1 else same_script
            fits = [each for each in fits if not _finished(each[0])]
        for run, _about_it in fits:
            if not has_writer(run):
                return run, job.how
    return None


def _newest_first() -> Iterator[tuple[Path, dict[str, Any]]]:
    return ((run, _about(run)) for run in reversed(all_runs()[-_NEWEST:]))


def go_on(run: Path, how: str, command: Sequence[str], started: float, options: Mapping[str, Any]) -> Earlier:
    """Reopen a run for another part. Raises ValueError with one line, or OSError, where that cannot be."""
    from trainmeter_core.runlog.read import read_run

    from .recover import recover

    record = read_run(run)
    if not isinstance(record.identity.run_id, str) and record.notes.lines == record.notes.junk_lines:
        raise ValueError(
            f"{run.name} holds nothing to go on with: {RUN_FILE} cannot be read, and no record is in its log"
        )
    if isinstance(record.end.seconds, Absent):  # its tm was killed: what the agents left comes first
        recover(run)
        record = read_run(run)
    run_id = record.identity.run_id
    writer = RunWriter.reopen(run, run_id if isinstance(run_id, str) else run.name.rpartition("-")[2])
    for name in (PASSPORT_FILE, PASSPORT_MARKDOWN_FILE):  # the run goes on: they are written anew at its end
        (run / name).unlink(missing_ok=True)
    writer.append("resumed", started=started, command=redact_command(command), how=how, **options)
    return Earlier(writer, how, record)


def _about(run: Path) -> dict[str, Any]:
    try:
        about = json.loads(_bytes_of(run / RUN_FILE))
    except (OSError, ValueError):
        # Being removed at this moment, or not a run of this version.
        return {}
    return about if isinstance(about, dict) else {}


def _finished(run: Path) -> bool:
    try:
        ends = json.loads(_bytes_of(run / PASSPORT_FILE))["ends"]
        return bool(ends["how"] == "finished")
    except (OSError, ValueError, KeyError, TypeError):
        # Killed, or never at its end.
        return False


def _bytes_of(path: Path) -> bytes:
    with open(path, "rb", opener=opener) as file:
        return file.read()
