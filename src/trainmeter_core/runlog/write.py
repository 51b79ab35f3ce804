"""Makes the run directory and appends to its log; a full disk stops the log, never the run."""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import re
import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from trainmeter_core.passport.redact import redact_command, redact_text
from trainmeter_core.plain_files import opener
from trainmeter_core.version import __version__

from .format import FORMAT, LOG_FILE, NEW_LOG_FILE, PASSPORT_FILE, PASSPORT_MARKDOWN_FILE, RUN_FILE
from .locate import runs_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


class RunWriter:
    """The one writer of a run directory. No method raises OSError: `problem` keeps the first reason instead."""

    def __init__(self, directory: Path, run_id: str) -> None:
        self.directory = directory
        self.run_id = run_id
        self.problem: str | None = None
        self.size = 0
        """Bytes of log."""
        self._log = -1

    @classmethod
    def create(
        cls,
        script: str,
        command: Iterable[str],
        *,
        started: float | None = None,
        runs: Path | None = None,
        run_id: str | None = None,
        **fields: Any,
    ) -> RunWriter:
        """Make the directory (0700), write run.json atomically and open the log (0600).

        `fields` are the optional ones of `format.RUN_FIELDS`; command and script are redacted here. `started` is
        seconds since the epoch. Where the directory cannot be made, a writer that is stopped comes back.
        """
        started = time.time() if started is None else started
        run_id = run_id or os.urandom(3).hex()
        words = redact_command(command)
        shown = redact_text(script)
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(started))
        directory = (runs or runs_directory()) / f"{stamp}-{_short(fields.get('name') or shown)}-{run_id}"
        writer = cls(directory, run_id)
        about = {
            "format": FORMAT,
            "run_id": run_id,
            "script": shown,
            "command": words,
            "started": started,
            "trainmeter": __version__,
            **fields,
        }
        try:
            directory.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            directory.mkdir(mode=0o700)
            _write_atomically(directory / RUN_FILE, line_of(about))
            writer._log = opener(directory / LOG_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            lock(writer._log)
        except OSError as error:  # read-only home, full disk, quota
            writer._stop(error)
        return writer

    @classmethod
    def reopen(cls, directory: Path, run_id: str) -> RunWriter:
        """Go on with a log whose writer is gone. Raises BlockingIOError while it is not, OSError as `open` does."""
        writer = cls(directory, run_id)
        writer._log = opener(directory / LOG_FILE, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW)
        try:
            if not lock(writer._log) or not os.path.samestat(os.fstat(writer._log), os.stat(directory / LOG_FILE)):
                raise BlockingIOError(f"{directory} is being written")
            (directory / NEW_LOG_FILE).unlink(missing_ok=True)
            _end_torn_line(writer._log)
            writer.size = os.fstat(writer._log).st_size
        except OSError:
            os.close(writer._log)
            raise
        return writer

    def append(self, type: str, **fields: Any) -> None:  # noqa: A002  the field's own name
        """Append one record; "t" is now unless given. Numbers that are not finite become null."""
        self.append_many([{"type": type, **fields}])

    def append_many(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Append records in one write, so that one drain is one system call; each needs its "type"."""
        if self.problem is not None:
            return
        now = time.time()
        data = b"".join(line_of({"type": record["type"], "t": record.get("t", now), **record}) for record in records)
        try:
            while data:
                written = os.write(self._log, data)
                self.size += written
                data = data[written:]
        except OSError as error:  # ENOSPC, EDQUOT, EIO, a vanished network file system
            self._stop(error)

    def replace(self, log: int, upto: int) -> None:
        """Go on with another file, which says the same as the log up to that byte; the rest is carried over.

        `log` is open for appending, and the writer's own from now on. Raises OSError, and the log stays as it is.
        """
        with (self.directory / LOG_FILE).open("rb") as file:
            file.seek(upto)
            rest = file.read()
        while rest:
            rest = rest[os.write(log, rest) :]
        lock(log)  # before it has the name under which others look for a writer
        size = os.fstat(log).st_size
        (self.directory / NEW_LOG_FILE).replace(self.directory / LOG_FILE)
        before, self._log, self.size = self._log, log, size
        with contextlib.suppress(OSError):  # of a network file system; the file has no name any more
            os.close(before)

    def write_passport(
        self, passport: Mapping[str, Any], markdown: str, pictures: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Write passport.json, passport.md and its pictures, each atomically; also tried after the log has stopped."""
        try:
            for name, picture in pictures.items():
                _write_atomically(self.directory / name, picture.encode())
            _write_atomically(self.directory / PASSPORT_FILE, json.dumps(passport, indent=1).encode() + b"\n")
            _write_atomically(self.directory / PASSPORT_MARKDOWN_FILE, markdown.encode(errors="backslashreplace"))
        except OSError as error:  # as in append
            self._stop(error)

    def close(self) -> None:
        """Close the log; appending afterwards does nothing."""
        if self._log >= 0:
            os.close(self._log)
            self._log = -1
        self.problem = self.problem or "closed"

    def _stop(self, error: OSError) -> None:
        if self.problem is None:
            self.problem = f"{error.strerror or error} ({self.directory})"
        if self._log >= 0:
            os.close(self._log)
            self._log = -1


def lock(log: int) -> bool:
    """Hold a log as its one writer, until it is closed or the process ends; False when another holds it.

    True also where the file system has no locks.
    """
    try:
        fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # ENOLCK, ENOTSUP: some network file systems
        return True
    return True


def has_writer(directory: Path) -> bool:
    """Whether a process holds the log of a run."""
    try:
        log = opener(directory / LOG_FILE, os.O_RDONLY)
    except OSError:  # no log, or not ours to read
        return False
    try:
        return not lock(log)
    finally:
        os.close(log)


def _end_torn_line(log: int) -> None:
    size = os.fstat(log).st_size
    if size and os.pread(log, 1, size - 1) != b"\n":
        os.write(log, b"\n")


def _short(name: str) -> str:
    stem = name.rstrip("/").rsplit("/", 1)[-1]
    stem = stem[: -len(".py")] if stem.endswith(".py") else stem
    return re.sub(r"[^A-Za-z0-9._]+", "-", stem).strip("-.")[:40] or "run"


def line_of(record: Mapping[str, Any]) -> bytes:
    """A record as it stands in the log."""
    try:
        text = json.dumps(record, allow_nan=False, default=str, separators=(",", ":"))
    except ValueError:  # NaN or an infinity somewhere inside
        text = json.dumps(_finite(record), allow_nan=False, default=str, separators=(",", ":"))
    return text.encode() + b"\n"


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    return value


def _write_atomically(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        handle = opener(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:  # leave no half-written file behind
        temporary.unlink(missing_ok=True)
        raise
