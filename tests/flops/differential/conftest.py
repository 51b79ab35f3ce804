"""Differences to the originals, printed as one table at the end of the run."""

from __future__ import annotations

import pytest

_ROWS: list[tuple[str, str, int]] = []


@pytest.fixture
def same():
    """Assert that two counts are equal, and keep the difference for the table: same(architecture, against, a, b)."""

    def check(architecture: str, against: str, ours: int, original: int) -> None:
        _ROWS.append((architecture, against, ours - original))
        assert ours == original, f"{architecture}: {against} differs by {ours - original}"

    return check


def pytest_terminal_summary(terminalreporter):
    if not _ROWS:
        return
    terminalreporter.section("architecture x original: difference in FLOPs")
    against = sorted({row[1] for row in _ROWS})
    for architecture in dict.fromkeys(row[0] for row in _ROWS):
        cells = [
            f"{name}: {difference}" for name in against for a, n, difference in _ROWS if (a, n) == (architecture, name)
        ]
        terminalreporter.write_line(f"{architecture:28} {'  '.join(cells)}")
