"""The examples of docs/flops.md run, and its table names every convention."""

from __future__ import annotations

import doctest
from pathlib import Path

from tests.flops.published import CONFIGS
from trainmeter_core.flops import CONVENTIONS

PAGE = Path(__file__).parents[2] / "docs" / "flops.md"


def test_the_examples_run():
    failed, tried = doctest.testfile(str(PAGE), module_relative=False)
    assert tried > 15
    assert failed == 0


def test_every_convention_has_a_row():
    rows = [line.split("|")[1].strip() for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert [name for name in CONVENTIONS if f"`{name}`" not in rows] == []


def test_the_page_of_differences_has_every_architecture_and_only_zeros():
    """As `pytest tests/flops --differences` wrote it."""
    lines = [line for line in (PAGE.parent / "differences.md").read_text().splitlines() if line.startswith("| ")]
    cells = {name.strip(): [cell.strip() for cell in rest] for name, *rest in (line[2:-2].split("|") for line in lines)}
    header = cells.pop("architecture")
    assert {"transformers total_flos", "torchtitan", "FlopCounterMode", "Megatron-LM", "NeMo AutoModel", "verl"} <= set(
        header
    )
    assert {cell for row in cells.values() for cell in row} == {"0", "-"}
    assert set(CONFIGS) <= set(cells)
    assert all("0" in row for row in cells.values())
    assert len(cells) > 100
