"""In CI a skipped test is a failure, unless it needs a GPU: everything else is installed there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name the skips that CI does not allow."""
    for nodeid, reason in _not_allowed(terminalreporter):
        terminalreporter.write_line(f"skipped in CI, where it must run: {nodeid}: {reason}", red=True)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run for them."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and session.exitstatus == 0 and _not_allowed(reporter):
        session.exitstatus = 1


def _not_allowed(reporter: pytest.TerminalReporter) -> list[tuple[str, str]]:
    if os.environ.get("CI") != "true":
        return []
    return [
        (report.nodeid, str(report.longrepr[-1] if isinstance(report.longrepr, tuple) else report.longrepr))
        for report in reporter.stats.get("skipped", [])
        if "gpu" not in getattr(report, "keywords", ())
    ]
