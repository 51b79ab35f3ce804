"""The node-local directory where agents leave their rings and side files: private, in memory where there is any."""

from __future__ import annotations

import contextlib
import ctypes
import json
import mmap
import os
import shutil
import stat
import tempfile
from typing import TYPE_CHECKING, Any

from trainmeter_core import resumption
from trainmeter_core.board_format import BOARD_BYTES, write_board
from trainmeter_core.json_text import parse
from trainmeter_core.plain_files import opener

if TYPE_CHECKING:
    from .one_run import OneRun

_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - checked for owner and mode below
_ROOM_NEEDED = 16 << 20
_POSITIONS = "positions.json"
_WORTH_A_HOLE = 1 << 20
_KEEP_SIZE, _PUNCH_HOLE = 1, 2  # linux/falloc.h


class Spool:
    """One run's directory, 0700 and ours; removed at the end, when everything is in the run directory.

    Raises OSError when no temporary directory can be written.
    """

    def __init__(self, run_id: str) -> None:
        self.path = os.path.join(_home_of_spools(), run_id)
        os.mkdir(self.path, 0o700)
        self._board = self._make_board()
        self._noted: dict[str, int] = {}
        self._given_back: dict[str, int] = {}

    def lay_out(self, content: dict[str, Any]) -> bool:
        """Put the newest readings on the board for the agents to publish."""
        return write_board(self._board, content)

    def note(self, positions: dict[str, int]) -> None:
        """Leave word how far the side files are in the run log, should tm be killed; give back what holds that."""
        if positions != self._noted:
            self._noted = positions
            temporary = os.path.join(self.path, _POSITIONS + ".new")
            with open(temporary, "w", encoding="ascii", opener=opener) as file:
                json.dump(positions, file)
            os.replace(temporary, os.path.join(self.path, _POSITIONS))
            self._give_back(positions)

    def _give_back(self, positions: dict[str, int]) -> None:
        """The memory of what each side file holds up to a position; its length stays, and so does its writer's place.

        Where the file system has no holes, the file stays as it is.
        """
        for name, upto in positions.items():
            if upto - self._given_back.get(name, 0) >= _WORTH_A_HOLE:
                self._given_back[name] = upto
                with contextlib.suppress(OSError):  # removed under us
                    _punch_hole(os.path.join(self.path, name), upto)

    def belongs_to(self, pid: int, one: OneRun) -> None:
        """Leave word that a process belongs to another run directory than the first: its passport asks for it."""
        path = os.path.join(self.path, f"run-{pid}")
        with contextlib.suppress(OSError), open(path, "w", encoding="utf-8", opener=opener) as file:
            file.write(str(one.writer.directory))

    def tell_before(self, content: dict[str, Any], pid: int | None = None) -> None:
        """Leave for a process, or for the first of all, what the run's processes before it came to."""
        path = os.path.join(self.path, resumption.FILE if pid is None else f"{resumption.FILE}-{pid}")
        with contextlib.suppress(OSError):
            with open(path + ".new", "w", encoding="ascii", opener=opener) as file:
                json.dump(content, file)
            os.replace(path + ".new", path)

    def remove(self) -> None:
        """Take the directory away."""
        self._board.close()
        shutil.rmtree(self.path, ignore_errors=True)

    def _make_board(self) -> mmap.mmap:
        path = os.path.join(self.path, "board")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.write(descriptor, b"\0" * BOARD_BYTES)
            return mmap.mmap(descriptor, BOARD_BYTES)
        finally:
            os.close(descriptor)


def _punch_hole(path: str, length: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        punch = getattr(ctypes.CDLL(None), "fallocate64", None)  # 64 bits also where `long` has fewer; not in musl
        if punch is not None:
            punch(descriptor, _KEEP_SIZE | _PUNCH_HOLE, ctypes.c_int64(0), ctypes.c_int64(length))
    finally:
        os.close(descriptor)


def spool_left_by(run_id: str) -> str | None:
    """The spool of a run whose tm is gone; None where it was removed, or is not ours alone."""
    if os.path.basename(run_id) != run_id:
        return None
    for base in (_SHARED_MEMORY, tempfile.gettempdir()):
        home = os.path.join(base, f"trainmeter-{os.getuid()}")
        path = os.path.join(home, run_id)
        try:
            if run_id and _ours_alone(home) and _ours_alone(path):
                return path
        except OSError:
            # Not in this one.
            continue
    return None


def noted_positions(path: str) -> dict[str, int]:
    """How far the side files of a spool were carried over; empty where nothing was noted."""
    try:
        with open(os.path.join(path, _POSITIONS), encoding="ascii", opener=opener) as file:
            noted = parse(file.read())
    except (OSError, ValueError):
        # tm was killed in its first half second.
        return {}
    return {name: at for name, at in noted.items() if isinstance(at, int)} if isinstance(noted, dict) else {}


def of_other_runs(path: str) -> set[int]:
    """The processes of a spool that belong to other run directories than the one it was made for."""
    return {int(name[4:]) for name in os.listdir(path) if name.startswith("run-") and name[4:].isdigit()}


def _home_of_spools() -> str:
    """Give a directory of this user alone, in shared memory when that has room, else in the temporary directory."""
    name = f"trainmeter-{os.getuid()}"
    for base in (_SHARED_MEMORY, tempfile.gettempdir()):
        path = os.path.join(base, name)
        try:
            if base == _SHARED_MEMORY and _room(base) < _ROOM_NEEDED:
                continue
            os.makedirs(path, 0o700, exist_ok=True)
            if _ours_alone(path):
                return path
        except OSError:
            # No such file system here, or not for us.
            continue
    # Somebody sits on the name that would be ours: take one that nobody can guess.
    return tempfile.mkdtemp(prefix=name + "-")


def _room(path: str) -> int:
    system = os.statvfs(path)
    return system.f_bavail * system.f_frsize


def _ours_alone(path: str) -> bool:
    """A real directory, owned by us, that nobody else can enter: not a link that somebody planted."""
    found = os.lstat(path)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
