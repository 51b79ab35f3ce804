"""Runs each program once bare and once under `tm`, side by side, and gives both ends to whichever test asks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from trainmeter_core.passport.check import check

PROGRAMS = Path(__file__).with_name("programs")
PYTHON = sys.executable
TM = [str(Path(sys.executable).with_name("tm"))]


@dataclass
class Ended:
    """A process that has ended."""

    code: int
    stdout: bytes
    stderr: str
    out: Path
    """The directory that the program was given to write to."""


@dataclass
class Run(Ended):
    """A run under `tm`."""

    directory: Path = Path()
    passport: dict[str, Any] = field(default_factory=dict)
    log: list[dict[str, Any]] = field(default_factory=list)

    def value(self, path: str) -> Any:
        """A number of the passport by its dotted name; None for a gap."""
        found: Any = self.passport
        for name in path.split("."):
            found = found[name]
        return found["value"] if isinstance(found, dict) and "value" in found else found

    def records(self, kind: str) -> list[dict[str, Any]]:
        return [record for record in self.log if record["type"] == kind]


@dataclass
class Pair:
    """The same program without and with `tm`."""

    bare: Ended
    tm: Run


class Launcher:
    """Starts commands with one thread each, in a state directory of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._count = 0
        self._pairs: dict[tuple[str, ...], Pair] = {}

    def place(self) -> Path:
        self._count += 1
        path = self.folder / str(self._count)
        path.mkdir()
        return path

    def environment(self, place: Path, **more: str) -> dict[str, str]:
        env = {name: value for name, value in os.environ.items() if not name.startswith("TRAINMETER_")}
        return {**env, "OMP_NUM_THREADS": "1", "TRAINMETER_HOME": str(place / "home"), "HF_HUB_OFFLINE": "1", **more}

    def start(self, words: list[str], place: Path, env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        words = [word.replace("{out}", str(place / "out")) for word in words]
        return subprocess.Popen(
            words,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=PROGRAMS,
            env=self.environment(place, **(env or {})),
        )

    def finish(self, process: subprocess.Popen[bytes], place: Path) -> Ended:
        stdout, stderr = process.communicate(timeout=240)
        return Ended(process.returncode, stdout, stderr.decode(), place / "out")

    def tm(self, *words: str, env: dict[str, str] | None = None, python: str | None = None) -> Run:
        """Run `tm WORDS`."""
        for _ in range(2):
            place = self.place()
            ended = self.finish(self.start([*self.words(python), *words], place, env), place)
            if not aborted_while_it_ended(ended):
                break
        return self.read(ended, place)

    def words(self, python: str | None = None) -> list[str]:
        return [*TM, *(["--python", python] if python else [])]

    def bare(self, *words: str, env: dict[str, str] | None = None) -> Ended:
        place = self.place()
        return self.finish(self.start(list(words), place, env), place)

    def read(self, ended: Ended, place: Path) -> Run:
        """Add the run directory to how the command ended."""
        [directory] = list((place / "home" / "runs").iterdir())
        passport = json.loads((directory / "passport.json").read_text())
        assert check(passport) == [], "every passport holds, whatever program it is of"
        log = [json.loads(line) for line in (directory / "log.jsonl").read_text().splitlines()]
        return Run(**vars(ended), directory=directory, passport=passport, log=log)

    def pair(self, program: str, *arguments: str, launcher: tuple[str, ...] = (), **env: str) -> Pair:
        """The program without and with `tm`; run once however many tests ask. `launcher`: words such as torchrun's."""
        key = (program, *arguments, "/", *launcher, "/", *(f"{k}={v}" for k, v in env.items()))
        if key not in self._pairs:
            script = [str(PROGRAMS / f"{program}.py"), *arguments]
            for _ in range(2):
                first, second = self.place(), self.place()
                bare = self.start([*(launcher or (PYTHON,)), *script], first, env)
                tm = self.start(
                    [*TM, "--peak-tflops", "0.1", *(("--", *launcher) if launcher else ()), *script], second, env
                )
                ended, measured = self.finish(bare, first), self.finish(tm, second)
                if not (aborted_while_it_ended(ended) or aborted_while_it_ended(measured)):
                    break
            self._pairs[key] = Pair(ended, self.read(measured, second))
        return self._pairs[key]


def aborted_while_it_ended(ended: Ended) -> bool:
    """Whether a rank aborted at its end: a C++ thread that asks for the interpreter then is taken down by Python.

    Seen twice in some sixty runs under tm and not in fifty bare ones, which does not tell whether tm has a part in it. A
    second run shows what the test asks for.
    """
    return bool(ended.code) and "terminate called without an active exception" in ended.stderr


@pytest.fixture(scope="session")
def launch(tmp_path_factory) -> Launcher:
    return Launcher(tmp_path_factory.mktemp("e2e"))


def user_lines(stderr: str) -> list[str]:
    """Standard error without tm's own lines, and without addresses, clock times and speeds."""
    return [
        re.sub(r"0x[0-9a-f]+|\d+:\d+(:\d+)?|\d+\.\d+(it/s|s/it)", "", line)
        for line in stderr.splitlines()
        if not line.startswith("tm: ")
    ]
