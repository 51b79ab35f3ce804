"""Counts the faults that the suite injects, and says at its end how many runs survived them and what was lost."""

from __future__ import annotations

import json
import os
from types import SimpleNamespace

import pytest


@pytest.fixture
def faults(record_property):
    """`injected(n)` before, `survived(n)` after the checks: a test that fails in between leaves a difference."""
    counts = SimpleNamespace(injected=0, survived=0, lost=0)

    def add(name: str):
        def count(number: int = 1) -> None:
            setattr(counts, name, getattr(counts, name) + number)

        return count

    yield SimpleNamespace(injected=add("injected"), survived=add("survived"), lost=add("lost"))
    for name, number in vars(counts).items():
        record_property("faults " + name, number)


def pytest_terminal_summary(terminalreporter) -> None:
    totals = dict.fromkeys(("injected", "survived", "lost"), 0)
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, number in getattr(report, "user_properties", ()):
                if name.startswith("faults ") and getattr(report, "when", "") == "teardown":
                    totals[name[len("faults ") :]] += number
    if not totals["injected"]:
        return
    line = "faults injected {injected:,}, survived {survived:,}, lost data {lost:,}".format(**totals)
    terminalreporter.write_line(line)
    if os.environ.get("FAULTS_REPORT"):
        with open(os.environ["FAULTS_REPORT"], "w") as file:
            json.dump(totals, file)
