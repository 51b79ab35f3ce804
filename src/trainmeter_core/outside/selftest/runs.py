"""Runs a command bare, under tm, and bare again, each from the same beginning, and keeps what each run left."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from trainmeter_core.hookspecs import UsersData
from trainmeter_core.plugins import find_plugins, managers

from .judge import DIFFERS, Row
from .outcome import UNREAD, Known, Outcome, look, written_since
from .text import without
from .verdict import rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

SMALL_BYTES = 256 << 20
SMALL_FILES = 20_000
_MOST_BARE = 4
# What a run in place may leave to be looked at again, besides hashes.
_KEPT_BYTES = 2 << 30


class Performance(NamedTuple):
    """What the runs came to."""

    in_place: bool
    rows: list[Row]
    outcomes: list[Outcome]

    @property
    def differs(self) -> bool:
        """Whether anything differs beyond the program's own noise."""
        return any(row.state == DIFFERS for row in self.rows)


def perform(
    argv: Sequence[str],
    *,
    python: str,
    copy: bool | None = None,
    with_options: Sequence[str] = (),
    keep: Path | None = None,
    told: Callable[[str], None] = lambda _: None,
) -> Performance:
    """Run and compare. `copy`: in copies of the working directory, in it, or (None) in copies where it is small.

    What differs is compared with further bare runs, for two alike may have been alike by chance. `told` gets a line
    before each run. Raises OSError where no scratch directory can be made or copied, and where
    the command cannot be started.
    """
    here = Path.cwd()
    in_place = not copy if copy is not None else not is_small(here)
    with _scratch(keep) as scratch:
        stage = _InPlace(here, scratch) if in_place else _Copies(here, scratch)
        outcomes = []
        for label in ("bare", "tm", "bare 2"):
            told(f"running {'under tm' if label == 'tm' else 'bare'}: {label}")
            outcomes.append(_run(label, argv, stage, scratch, with_options))
        measured = outcomes.pop(1)
        found = rows(outcomes, measured, python)
        while any(row.state == DIFFERS for row in found) and len(outcomes) < _MOST_BARE:
            label = f"bare {len(outcomes) + 1}"
            told(f"something differs; once more bare, to tell it from chance: {label}")
            outcomes.append(_run(label, argv, stage, scratch, with_options))
            found = rows(outcomes, measured, python)
        return Performance(in_place, found, [measured, *outcomes])


def is_small(directory: Path) -> bool:
    """Whether a directory may be copied a few times without a thought; environments in it are not copied."""
    size = files = 0
    for parent, inner, names in os.walk(directory):
        inner[:] = [name for name in inner if not _is_environment(os.path.join(parent, name))]
        for name in names:
            files += 1
            try:
                size += os.lstat(os.path.join(parent, name)).st_size
            except OSError:  # gone since it was listed
                continue
        if size > SMALL_BYTES or files > SMALL_FILES:
            return False
    return True


class _Copies:
    """Each run begins in a fresh copy, all of them under one path: programs print and save where they are."""

    def __init__(self, here: Path, scratch: Path) -> None:
        self._here, self._scratch = here, scratch
        self.directory = scratch / "work" / here.name
        self.directory.parent.mkdir()

    def begin(self) -> None:
        def beside(parent: str, names: list[str]) -> list[str]:
            left = [name for name in names if _is_environment(os.path.join(parent, name))]
            return left + [name for name in names if os.path.realpath(os.path.join(parent, name)) == str(self._scratch)]

        shutil.copytree(self._here, self.directory, symlinks=True, ignore=beside)
        for parent, inner, _ in os.walk(self._here):
            for name in [each for each in inner if _is_environment(os.path.join(parent, each))]:
                inner.remove(name)
                place = os.path.join(parent, name)
                os.symlink(place, self.directory / os.path.relpath(place, self._here))

    def end(self, label: str, written: Sequence[str]) -> Path:  # noqa: ARG002 - the other stage needs them
        place = self._scratch / label
        self.directory.rename(place)
        return place


class _InPlace:
    """Each run begins with what the one before left; what it wrote is copied away before the next one."""

    def __init__(self, here: Path, scratch: Path) -> None:
        self.directory, self._scratch = here, scratch

    def begin(self) -> None:
        """Nothing is to be made."""

    def end(self, label: str, written: Sequence[str]) -> Path:
        place, left = self._scratch / label, _KEPT_BYTES
        place.mkdir()
        for name in written:
            source = self.directory / name
            if source.is_file() and not source.is_symlink() and source.stat().st_size <= left:
                left -= source.stat().st_size
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, place / name)
        return place


def _run(
    label: str, argv: Sequence[str], stage: _Copies | _InPlace, scratch: Path, with_options: Sequence[str]
) -> Outcome:
    stage.begin()
    trackers = scratch / f"trackers {label}"
    trackers.mkdir()
    before = look(stage.directory)
    transcript = scratch / f"said {label}"
    words = list(argv)
    env = _environment(trackers)
    if label == "tm":
        words = (
            [sys.executable, "-P", "-m", "trainmeter_core"]
            if sys.version_info >= (3, 11)
            else [sys.executable, "-m", "trainmeter_core"]
        )
        words += ["--transcript", str(transcript), "--no-web", *with_options, "--", *argv]
        env["TRAINMETER_HOME"] = str(scratch / "home")
        env.pop("TM", None)
    streams = [scratch / f"{name} {label}" for name in ("stdout", "stderr")]
    began = time.monotonic()
    with streams[0].open("wb") as stdout, streams[1].open("wb") as stderr:
        code = subprocess.run(  # noqa: S603 - the user's own command
            words, cwd=stage.directory, env=env, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, check=False
        ).returncode
    seconds = time.monotonic() - began
    return _outcome(label, code, seconds, streams, stage, before, trackers, transcript)


def _outcome(  # noqa: PLR0917 - the parts of one run
    label: str, code: int, seconds: float, streams: Sequence[Path], stage: _Copies | _InPlace,
    before: dict[str, Known], trackers: Path, transcript: Path,
) -> Outcome:  # fmt: skip
    written = written_since(stage.directory, before)
    place = stage.end(label, list(written))
    said = [json.loads(line) for line in transcript.read_text().splitlines()] if transcript.exists() else []
    outcome = Outcome(
        label, code, seconds, streams[0].read_bytes(),
        without(streams[1].read_bytes(), [line.encode() for line in said]), place, written,
    )  # fmt: skip
    for name, manager in managers(find_plugins()[0]):
        for root in (place, trackers):
            try:
                for told in manager.hook.users_data(directory=str(root)):
                    outcome.trackers += told
            except Exception as error:  # noqa: BLE001 - a third party's adapter, or a file that no reader knows
                why = f"{type(error).__name__}: {error}"
                outcome.trackers.append(UsersData(f"adapter {name}", (), {UNREAD: why}))
    return outcome


def _environment(trackers: Path) -> dict[str, str]:
    """The user's own, with each tracker's data kept on this machine: three more runs belong into nobody's project."""
    env = dict(os.environ)
    for _, manager in managers(find_plugins()[0]):
        for added in manager.hook.kept_apart(directory=str(trackers), base=env):
            env.update(added)
    return env


def _is_environment(path: str) -> bool:
    return os.path.isfile(os.path.join(path, "pyvenv.cfg")) and not os.path.islink(path)


@contextmanager
def _scratch(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True, mode=0o700)
        yield keep.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="trainmeter-selftest-", ignore_cleanup_errors=True) as scratch:
        yield Path(scratch).resolve()


def as_json(performance: Performance, argv: Sequence[str]) -> dict[str, Any]:
    """The result as one object."""
    states = [row.state for row in performance.rows]
    return {
        "command": list(argv),
        "in_place": performance.in_place,
        "differs": performance.differs,
        "counts": {state: states.count(state) for state in ("same", "noise", "differs")},
        "rows": [row._asdict() for row in performance.rows],
        "runs": [{"run": each.label, "end": each.end, "seconds": each.seconds} for each in performance.outcomes],
    }
