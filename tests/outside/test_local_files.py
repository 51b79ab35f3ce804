"""The files of a run without a tracker."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest

from trainmeter_core.outside.local_files import LocalFiles


class Written:
    command = ""

    def __init__(self):
        self.rows = []

    def write(self, numbers, step, wall_time):
        self.rows.append(step)


@pytest.fixture
def clock(monkeypatch):
    """Seconds, one element."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_a_run_of_days_has_a_row_each_second_at_first_and_then_fewer(tmp_path, clock):
    """Event files of one row a second would grow by five megabytes an hour for ever."""
    files = LocalFiles(tmp_path, [])
    written: Any = Written()
    files._writer = written
    hours = 100
    for second in range(hours * 3600):
        clock[0] += 1.0
        files.hold({"trainmeter/step": second}, 1.7e9 - second)
        if second % 10_000 == 0:
            files.write()
    files.write(at_the_end=True)
    assert written.rows[:3600] == list(range(3600))
    assert len(written.rows) <= 3600 * (1 + math.log(hours)) + 1
    gaps = [(late - early, early) for early, late in zip(written.rows, written.rows[1:], strict=False)]
    assert all(gap <= 1 + math.ceil(early / 3600) for gap, early in gaps)


def test_what_the_program_emits_is_all_written(tmp_path, clock):
    files = LocalFiles(tmp_path, [])
    written: Any = Written()
    files._writer = written
    files.hold({"trainmeter/step": 0}, 1.7e9)
    clock[0] += 1e6
    files.hold_all([(step, 1.7e9, {"loss": 1.0}) for step in range(1, 100)])
    files.write()
    assert written.rows == list(range(100))
