"""The lines that `tm` ends with: counts that read well, and a plea for a report only where there is something to report."""

from __future__ import annotations

import pytest

from trainmeter_core.outside.summary import counted, failure_line, scaled


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 "), (7, "7 "), (999, "999 "), (999.5, "1 K"), (614_400, "614 K"), (2.07e20, "207 E"), (1.5e12, "1.5 T")],
)
def test_three_digits_and_a_prefix(number, text):
    assert scaled(number) == text


def test_a_small_count_has_its_noun():
    assert [counted(1, "step"), counted(1000, "step"), counted(None, "step")] == ["1 step", "1,000 steps", "? steps"]


def test_a_failure_of_ours_asks_for_a_report():
    line = failure_line([("optimizer", 3, "KeyError: 1 at agent.py:7"), ("ring", 1, "OSError: [Errno 28] no space")])
    assert "failed 4 times" in line
    assert "optimizer: KeyError" in line
    assert "report" in line


def test_what_the_system_refused_is_nothing_to_report():
    line = failure_line([
        ("tm", 1, "PermissionError: [Errno 13] Permission denied: '/x'"), ("tm", 1, "FileNotFoundError: /x has no run.json"),
    ])  # fmt: skip
    assert "Permission denied" in line
    assert "your program was not affected" in line
    assert "report" not in line
