"""The page for a tracker that shows files: the passport, and what only the newest row knows."""

from __future__ import annotations

from tests.passport.passport_runs import cpu_run, rich, toy_formulas
from trainmeter_core.passport.build import build
from trainmeter_core.passport.page import render
from trainmeter_core.passport.panel import panel

LADDER = {f"trainmeter/ladder/{rung}": value for rung, value in (("1_gpu_util", 90.0), ("2_sm_active", 80.0))}


def test_without_readings_it_is_the_passports_page():
    passport = build(cpu_run(), toy_formulas)
    assert panel(passport, {}) == render(passport)


def test_a_ladder_that_the_passport_lacks_is_drawn_from_the_newest_row():
    page = panel(build(cpu_run(), toy_formulas), LADDER)
    assert "<h2>Utilization ladder, newest reading</h2>" in page
    assert "90 %</b>" in page
    assert "For 10 % of the time no kernel ran" in page


def test_one_that_it_has_is_not_drawn_twice():
    passport = build(rich(), toy_formulas)
    known = {f"trainmeter/ladder/{rung}": 50.0 for rung, value in passport["efficiency"]["ladder"].items() if value}
    assert known
    assert panel(passport, known) == render(passport)


def test_readings_of_node_and_gpus_are_tables_before_the_data():
    page = panel(build(cpu_run(), toy_formulas), {"trainmeter/node/cpu_pct": 12.5, "trainmeter/gpu/power_w": 300.0})
    assert page.index("Node, newest reading") < page.index("GPUs, newest reading") < page.index("application/json")
    assert "<td>cpu pct</td><td>12.5</td>" in page


def test_a_name_stays_text():
    page = panel(build(cpu_run(), toy_formulas), {"trainmeter/node/<img src=x>": 1.0})
    assert "<img" not in page
