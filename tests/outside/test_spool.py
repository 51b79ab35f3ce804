"""The node-local directory of a run: what has been carried over does not stay in memory."""

from __future__ import annotations

import ctypes
import os

import pytest

from trainmeter_core.inside.side_file import SideFile
from trainmeter_core.outside.drain import Drain
from trainmeter_core.outside.spool import Spool, noted_positions


@pytest.fixture
def spool():
    made = Spool(os.urandom(8).hex())
    yield made
    made.remove()


def in_memory(path):
    return os.stat(path).st_blocks * 512


def test_a_side_file_of_days_takes_no_more_memory_than_what_is_not_carried_over_yet(spool):
    """Losses of many names every few seconds: tens of megabytes an hour, in memory that belongs to the training."""
    log: list = []
    drain = Drain(spool.path, log.append)
    path = os.path.join(spool.path, "r0-1.jsonl")
    side = SideFile(path)
    most = 0
    for at in range(64):
        side.write("losses", {"rank": 0, "tags": {"at": at, "much": "x" * (1 << 18)}})
        drain.poll()
        spool.note(drain.positions())
        most = max(most, in_memory(path))
    if not hasattr(ctypes.CDLL(None), "fallocate64"):
        pytest.skip("this C library makes no holes")
    assert os.path.getsize(path) > 16 << 20
    assert most <= 2 << 20
    assert [record["tags"]["at"] for record in log] == list(range(64))

    rest: list = []
    side.write("losses", {"rank": 0, "tags": {"at": 64}})
    recovery = Drain(spool.path, rest.append)
    recovery.resume(noted_positions(spool.path), {})
    recovery.poll()
    assert [record["tags"]["at"] for record in rest] == [64]


def test_a_side_file_read_from_its_beginning_again_loses_only_what_was_given_back(spool):
    path = os.path.join(spool.path, "r0-1.jsonl")
    side = SideFile(path)
    side.write("losses", {"rank": 0, "tags": {"much": "x" * (2 << 20)}})
    spool.note({"r0-1.jsonl": os.path.getsize(path)})
    side.write("losses", {"rank": 0, "tags": {"at": 1}})
    log: list = []
    Drain(spool.path, log.append).poll()
    assert log[-1]["tags"] == {"at": 1}
