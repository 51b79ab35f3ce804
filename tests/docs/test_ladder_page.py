"""The page on the ladder says what the code says: every rung, and the sentence of every gap."""

from __future__ import annotations

import pytest

from tests.docs.pages import ROOT
from trainmeter_core.ladder import _MEANING, RUNGS

# Its block quotes, without the marks at the beginnings of lines.
TEXT = " ".join((ROOT / "docs" / "ladder.md").read_text().replace("\n> ", " ").split())


@pytest.mark.parametrize(("upper", "lower"), list(_MEANING))
def test_a_gap_has_its_heading_and_its_sentence(upper, lower):
    start = "100 %" if upper == "0_wall" else f"`{upper}`"
    assert f"## {start} → `{lower}`" in TEXT
    assert _MEANING[upper, lower].loss.replace("{:.0f}", "N") in TEXT


@pytest.mark.parametrize(("name", "meaning"), RUNGS)
def test_a_rung_has_its_row(name, meaning):
    assert f"| `{name}` | {meaning} |" in TEXT
