"""Every reader of ours as a function of bytes, with the errors that it may raise: all that it promises."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from trainmeter_core import ring_format
from trainmeter_core.board_format import BOARD_BYTES, HEAD, read_board
from trainmeter_core.cli.model_source import model_of
from trainmeter_core.cli.passport import read_passport
from trainmeter_core.outside.drain import Drain
from trainmeter_core.outside.node.sampler import NodeSampler
from trainmeter_core.outside.replay import rows
from trainmeter_core.outside.ring_reader import RingReader
from trainmeter_core.passport import page
from trainmeter_core.passport.build import build
from trainmeter_core.passport.check import check
from trainmeter_core.passport.markdown import render
from trainmeter_core.passport.restore import restore
from trainmeter_core.runlog.read import read_run
from trainmeter_core.runlog.snapshot import SNAPSHOT_FILE
from trainmeter_mlflow import spool
from trainmeter_tb.read import read_run as read_events
from trainmeter_wandb.read import read_file

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

_FOLDER = Path(tempfile.mkdtemp(prefix="trainmeter-fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
atexit.register(shutil.rmtree, _FOLDER, ignore_errors=True)


class Reader(NamedTuple):
    """`read` takes the content; `allowed` are the errors that say in one line what is wrong with it."""

    read: Callable[[bytes], object]
    allowed: tuple[type[Exception], ...] = ()


def _file(name: str, data: bytes) -> Path:
    path = _FOLDER / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path


def _serializable(record: dict[str, Any]) -> None:
    json.dumps(record)


def _run_log(data: bytes) -> None:
    """Half of it as run.json: the first line."""
    about, _, log = data.partition(b"\n")
    _file("run/run.json", about)
    directory = _file("run/log.jsonl", log).parent
    passport = build(read_run(directory))
    json.dumps(passport, allow_nan=False)
    render(passport)
    for _ in rows(directory, every_s=0.0):
        pass


def _snapshot(data: bytes) -> None:
    _file("snapshot/run.json", b"{}")
    _file("snapshot/log.jsonl", b"")
    read_run(_file("snapshot/" + SNAPSHOT_FILE, data).parent)


def _ring(data: bytes) -> None:
    """The content is the header and the first records; the rest of a ring is zeros."""
    path = _file("x.ring", data)
    os.truncate(path, ring_format.RING_BYTES)
    reader = RingReader(str(path))
    reader.totals()
    for _ in reader.steps():
        pass
    reader.close()
    path.rename(_file("ring/x.ring", b""))
    drain = Drain(str(_FOLDER / "ring"), _serializable)
    drain.finish()
    drain.close()


def _board(data: bytes) -> None:
    text = data[: BOARD_BYTES - HEAD.size]
    read_board((HEAD.pack(2, len(text)) + text).ljust(BOARD_BYTES, b"\0"))
    read_board(data.ljust(BOARD_BYTES, b"\0"))


def _side_file(data: bytes) -> None:
    _file("side/r0-1.jsonl", data)
    Drain(str(_FOLDER / "side"), _serializable).poll()


def _events(data: bytes) -> None:
    found = read_events([str(_file("events.tfevents", data))])
    build(found.record())


def _wandb(data: bytes) -> None:
    read_file(str(_file("run-x.wandb", data)))


def _passport(data: bytes) -> None:
    passport = read_passport(_file("passport.json", data))
    check(passport)
    render(passport)
    build(restore(passport))
    page.passport_in(page.render(passport))


def _config_file(data: bytes) -> None:
    found = model_of(
        {"path": str(_file("config.json", data)), "seq_len": None, "tied": False, **dict.fromkeys(_NUMBERS)}
    )
    assert found is not None


_NUMBERS = ("layers", "width", "heads", "kv_heads", "head_dim", "ffn", "vocab", "params", "window", "experts", "topk")


def _node(data: bytes) -> None:
    """The same content in every file that the node's sampler reads, twice."""
    root = _FOLDER / "node"
    for name in (
        "stat", "meminfo", "diskstats", "net/dev", "self/mounts", "self/mountinfo", "self/cgroup", "self/status",
        "pressure/cpu", "pressure/io", "pressure/memory", "loadavg", "cpuinfo", "spl/kstat/zfs/arcstats", "uptime",
    ):  # fmt: skip
        path = root / "proc" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    sampler = NodeSampler(str(root))
    sampler.sample()
    json.dumps(sampler.sample())
    json.dumps(sampler.describe())


def _pending(data: bytes) -> None:
    _file("pending/" + spool.FILE, data)
    spool.read(str(_FOLDER / "pending"))


READERS: dict[str, Reader] = {
    "run log": Reader(_run_log),
    "snapshot": Reader(_snapshot),
    "ring": Reader(_ring, (ValueError,)),
    "board": Reader(_board),
    "side file": Reader(_side_file),
    "event file": Reader(_events),
    "wandb file": Reader(_wandb, (ValueError,)),
    "passport": Reader(_passport, (ValueError,)),
    "passport page": Reader(lambda data: page.passport_in(data.decode("utf-8", "replace")), (ValueError,)),
    "model config": Reader(_config_file, (click.UsageError,)),
    "node files": Reader(_node),
    "mlflow spool": Reader(_pending),
}

_WORDS = (
    b"null", b"-1", b"0", b"1e400", b"NaN", b"Infinity", b"-1e-400", b"9" * 30, b"9" * 5000, b'""', b"[]", b"{}", b"true",
    b"[" * 2000, b'{"a":' * 2000, b"\\ud800", b"\xff\xfe", b"\0" * 8, b"\xff" * 8, b"\x80\x80\x80\x80\x10", b"\n", b'"', b"\t",
)  # fmt: skip


def mutated(data: bytes, chance: random.Random, other: bytes = b"") -> bytes:
    """One to four small changes: bits, bytes, numbers, words of trouble, pieces moved, cut, doubled, or of another one."""
    out = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(out) + 1)
        to = min(len(out), at + chance.choice((1, 1, 2, 4, 8, 32, 256)))
        kind = chance.randrange(8)
        if kind == 0 and at < len(out):
            out[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            out[at:to] = chance.randbytes(to - at)
        elif kind == 2:
            out[at:to] = chance.choice(_WORDS)
        elif kind == 3:
            del out[at:to]
        elif kind == 4:
            out[at:at] = out[at:to] * chance.choice((1, 1, 2, 50))
        elif kind == 5 and other:
            begin = chance.randrange(len(other))
            out[at:to] = other[begin : begin + chance.choice((4, 16, 64, 512))]
        elif kind == 6:
            _replace_value(out, at, chance)
        else:
            out[:] = out[:at] if chance.random() < 0.3 else out
    return bytes(out[: 1 << 20])


def _replace_value(out: bytearray, at: int, chance: random.Random) -> None:
    """A whole value of a JSON text or a table: what stands from a colon, a comma or a blank to the next."""
    begin = min((found for found in (out.find(mark, at) for mark in (b":", b",", b" ")) if found >= 0), default=-1)
    if begin < 0:
        return
    end = min(
        (found for found in (out.find(mark, begin + 1) for mark in (b",", b"}", b"]", b" ", b"\n")) if found >= 0),
        default=len(out),
    )
    out[begin + 1 : end] = chance.choice(_WORDS)
