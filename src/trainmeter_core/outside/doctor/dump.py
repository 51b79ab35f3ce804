"""The bundle of `tm doctor --dump`: the lines, and what the samplers read, without secrets, users and machine names."""

from __future__ import annotations

import contextlib
import getpass
import io
import json
import os
import platform
import re
import tarfile
import time
from typing import TYPE_CHECKING, Any

from trainmeter_core.outside.gpu import GpuSampler
from trainmeter_core.outside.node import NodeSampler
from trainmeter_core.outside.node.tree import Tree
from trainmeter_core.passport.redact import REDACTED, is_secret_name, redact_text
from trainmeter_core.readings import Absent

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from .line import Line

_LONGEST = 1 << 20
_HOST_NAME = ("proc/sys/kernel/hostname",)
_SAMPLE_S = 0.3

# Variables that decide what tm does, or what a GPU job sees; of all others not even the name is told.
_TOLD = re.compile(
    r"(?:CUDA|NVIDIA|NCCL|SLURM|TORCH|TORCHELASTIC|TRAINMETER|OMP|WANDB|MLFLOW|PYTHON|ROCR|HIP)_?\w*|"
    r"TM|RANK|LOCAL_RANK|WORLD_SIZE|MASTER_PORT|VIRTUAL_ENV|CONDA_PREFIX|LD_LIBRARY_PATH|PATH|LANG|LC_\w+|TMPDIR"
)
_HOME = re.compile(r"(?<=/home/)[^/\s:,\"']+|(?<=/Users/)[^/\s:,\"']+")
_UUID = re.compile(
    r"(?<=GPU-)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<=MIG-)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
)
_ADDRESS = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b")
_SHORTEST_NAME = 3


def write(path: Path, lines: Iterable[Line], environ: Mapping[str, str] = os.environ) -> None:
    """Write the bundle. Raises OSError when it cannot be written."""
    tree = _Noting()
    files: dict[str, str] = {
        "doctor.json": json.dumps([line._asdict() for line in lines], indent=1),
        "node.json": json.dumps(_node(tree), indent=1, sort_keys=True),
        "gpu.json": json.dumps(_gpus(environ), indent=1, default=str),
        "environment.json": json.dumps(_environment(environ), indent=1, sort_keys=True),
    }
    files |= {"files/" + name.lstrip("/"): text for name, text in tree.read.items()}
    clean = Redactor(environ)
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            data = clean(text).encode()
            entry = tarfile.TarInfo("trainmeter-doctor/" + clean(name))
            entry.size, entry.mtime, entry.mode = len(data), int(time.time()), 0o644
            archive.addfile(entry, io.BytesIO(data))


class Redactor:
    """Takes out secrets, users, this machine's names, addresses and GPU serials; the same word everywhere for each."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        users = {environ.get(name, "") for name in ("USER", "LOGNAME", "SUDO_USER", "USERNAME")}
        with contextlib.suppress(KeyError, OSError):  # a user id without a name, as in containers
            users.add(getpass.getuser())
        home = os.path.basename(environ.get("HOME", ""))
        self._words = {word: "[user]" for word in (*users, home) if len(word) >= _SHORTEST_NAME and word != "root"}
        node = platform.node()
        self._words |= {word: "[node]" for word in (node, node.partition(".")[0]) if len(word) >= _SHORTEST_NAME}
        values = (value for name, value in environ.items() if is_secret_name(name))
        self._words |= {value: REDACTED for value in values if len(value) > _SHORTEST_NAME}
        self._serials: dict[str, str] = {}

    def __call__(self, text: str) -> str:
        for word in sorted(self._words, key=len, reverse=True):
            text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z0-9])", self._words[word], text)
        text = _UUID.sub(self._serial, text)
        text = _HOME.sub("[user]", text)
        text = _ADDRESS.sub("[address]", text)
        return "\n".join(redact_text(line) for line in text.split("\n"))

    def _serial(self, found: re.Match[str]) -> str:
        return self._serials.setdefault(found.group(), f"serial-{len(self._serials) + 1}")


class _Noting(Tree):
    """The live files, and what each of them said when it was read last."""

    def __init__(self) -> None:
        super().__init__("/")
        self.read: dict[str, str] = {}

    def text(self, *parts: str) -> str:
        text = super().text(*parts)
        if parts == _HOST_NAME:
            return "[node]"
        self.read[self.path(*parts)] = text[:_LONGEST]
        return text


def _node(tree: Tree) -> dict[str, Any]:
    sampler = NodeSampler(tree=tree)
    facts = sampler.describe()
    sampler.sample()
    time.sleep(_SAMPLE_S)
    return {"facts": facts, "readings": sampler.sample(), "gaps": sampler.gaps}


def _gpus(environ: Mapping[str, str]) -> dict[str, Any]:
    sampler = GpuSampler(environ=environ)
    try:
        if sampler.absent is not None:
            return {"absent": sampler.absent.reason}
        time.sleep(_SAMPLE_S)
        sample = sampler.sample()
        return {
            "devices": [{name: _plain(value) for name, value in vars(device).items()} for device in sampler.devices],
            "readings": [{name: _plain(value) for name, value in gpu.values.items()} for gpu in sample.gpus],
            "throttle": [{name: _plain(value) for name, value in gpu.throttle_pct.items()} for gpu in sample.gpus],
            "assumed": sampler.assumed,
            "failures": sample.failures,
        }
    finally:
        sampler.close()


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        name: REDACTED if is_secret_name(name) else value for name, value in environ.items() if _TOLD.fullmatch(name)
    }


def _plain(value: Any) -> Any:
    return f"n/a: {value.reason}" if isinstance(value, Absent) else value
