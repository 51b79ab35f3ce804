"""Two runs compared: what changed, and what that did to the MFU."""

from __future__ import annotations

import json

import pytest

from tests.passport.passport_runs import block, cpu_run, rich, toy_formulas
from trainmeter_core.passport.build import build
from trainmeter_core.passport.changes import changes, drop_pct, words
from trainmeter_core.readings import Absent


def slower():
    """The same program, each step 0.1 s longer for data, on newer software, with another learning rate."""
    record = rich()
    record.software.torch = "2.14.0"
    record.identity.command = ["python", "train.py", "--lr", "1e-3", "--compile"]
    record.identity.git_commit = "beef"
    for rank in (0, 1):
        totals = record.ranks[rank]
        steps = totals.steady_steps
        totals.wall_s += 0.1 * steps
        totals.steady_wall_s += 0.1 * steps
        totals.time_s["data_wait"] += 0.1 * steps
    return record


@pytest.fixture
def found():
    return changes(build(rich(), toy_formulas), build(slower(), toy_formulas))


def test_the_same_run_twice_has_no_change():
    passport = build(rich(), toy_formulas)
    same = changes(passport, passport)
    assert all(not listed for listed in same["changed"].values())
    assert drop_pct(same) == 0
    assert words(same).startswith("MFU (torchtitan) is the same")


def test_the_factors_of_the_mfu_multiply_to_its_ratio(found):
    factors = found["factors"]
    product = (
        factors["flops_per_token"]["ratio"]
        * factors["tokens_per_s_per_device"]["ratio"]
        / factors["peak_tflops"]["ratio"]
    )
    assert found["mfu"]["ratio"] == pytest.approx(product)
    assert drop_pct(found) == pytest.approx(100 * (1 - found["mfu"]["ratio"]))


def test_a_longer_step_is_laid_to_the_kind_of_time_that_grew(found):
    assert found["step_s"]["data_wait"]["change"] == pytest.approx(0.1 * 100 / 101)
    assert found["step_s"]["step"]["change"] == 0
    text = words(found)
    assert "MFU (torchtitan) fell from" in text
    assert "  data wait: +0.09901 s a step" in text
    assert "Time in data wait:" in text


def test_what_changed_is_told_by_section_and_options_by_their_name(found):
    changed = found["changed"]
    assert changed["environment"] == [{"field": "software.torch", "before": "2.13.0", "after": "2.14.0"}]
    assert changed["code"] == [{"field": "identity.git_commit", "before": "45a0b47", "after": "beef"}]
    assert changed["config"] == [
        {"field": "identity.command --lr", "before": "3e-4", "after": "1e-3"},
        {"field": "identity.command --compile", "before": None, "after": "given"},
    ]
    assert changed["hardware"] == []
    assert "Same hardware" in words(found)


def test_without_an_mfu_the_reason_stands_in_its_place():
    found = changes(build(rich(), toy_formulas), build(cpu_run(), toy_formulas))
    assert isinstance(drop_pct(found), Absent)
    assert "cannot be compared: second run: no GPU, so no peak" in words(found)
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_a_changed_batch_shows_in_the_config():
    other = rich()
    other.add_steps(0, block(1, batches=[(8, 128, 0, 1)]))
    found = changes(build(rich(), toy_formulas), build(other, toy_formulas))
    assert any(change["field"].startswith("data.batches") for change in found["changed"]["config"])
