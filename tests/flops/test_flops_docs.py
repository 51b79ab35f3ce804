"""The examples of docs/flops.md run, and its table names every convention."""

from __future__ import annotations

import doctest
from pathlib import Path

from trainmeter_core.flops import CONVENTIONS

PAGE = Path(__file__).parents[2] / "docs" / "flops.md"


def test_the_examples_run():
    failed, tried = doctest.testfile(str(PAGE), module_relative=False)
    assert tried > 15
    assert failed == 0


def test_every_convention_has_a_row():
    rows = [line.split("|")[1].strip() for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert [name for name in CONVENTIONS if f"`{name}`" not in rows] == []
