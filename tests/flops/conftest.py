"""Differences to the originals: each one asserted to be 0, printed as one table, and kept as docs/differences.md.

`pytest tests/flops --differences` rewrites that page from what was just run.
"""

from __future__ import annotations

from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "differences.md"
HEAD = """# Differences to the originals

<!-- Written by `pytest tests/flops --differences` from what those tests compared; edit there. -->

FLOPs of ours minus FLOPs of the original's own code, on the same model and batch. The originals are run, not quoted: from
their packages where these install, Megatron-LM's and nanochat's functions as executed once (the values lie with the tests). A
distance that [flops.md](flops.md) names is taken off first. A dash: the original has no formula for the model, or was not asked.

"""
KEY = "difference"


@pytest.fixture
def same(request):
    """Assert that two counts are equal, and keep the difference for the table: same(architecture, against, a, b)."""

    def check(architecture: str, against: str, ours: int, original: int) -> None:
        request.node.user_properties.append((KEY, (architecture, against, ours - original)))
        assert ours == original, f"{architecture}: {against} differs by {ours - original}"

    return check


def pytest_addoption(parser):
    parser.addoption("--differences", action="store_true", help="rewrite docs/differences.md")


def pytest_terminal_summary(terminalreporter, config):
    """On whichever process reports: the tests themselves may have run in others."""
    rows = _rows(terminalreporter)
    if not rows:
        return
    terminalreporter.section("architecture x original: difference in FLOPs")
    for line in _table(rows):
        terminalreporter.write_line(line)
    if config.getoption("differences", False):
        PAGE.write_text(HEAD + "\n".join(_table(rows)) + "\n", encoding="utf-8")


def _rows(terminalreporter):
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, [])]
    return [tuple(value) for report in reports for key, value in getattr(report, "user_properties", []) if key == KEY]


def _table(rows):
    against = sorted({row[1] for row in rows}, key=str.lower)
    yield "| architecture | " + " | ".join(against) + " |"
    yield "|---" * (len(against) + 1) + "|"
    for architecture in sorted({row[0] for row in rows}, key=str.lower):
        found = {name: differences for name in against if (differences := _of(rows, architecture, name))}
        cells = [", ".join(sorted({str(d) for d in found[name]})) if name in found else "-" for name in against]
        yield f"| {architecture} | " + " | ".join(cells) + " |"


def _of(rows, architecture, name):
    return [difference for a, n, difference in rows if (a, n) == (architecture, name)]
