"""Other views of a passport: factors of the viewer's, several runs in a table, pictures."""

from __future__ import annotations

import copy
import xml.etree.ElementTree as ET

import pytest

from tests.passport.passport_runs import RECORDS, cpu_run, rich, toy_formulas
from trainmeter_core.passport import compare, overlay, svg
from trainmeter_core.passport.build import build
from trainmeter_core.readings import Absent

SVG = "{http://www.w3.org/2000/svg}"


def test_cost_is_devices_times_hours_times_price():
    passport = build(rich(), toy_formulas)
    assert overlay.cost_usd(passport, 2.5) == pytest.approx(2 * 64.25 / 3600 * 2.5)
    assert "| cost at 2.5 USD per device hour | 0.08924 USD |" in overlay.section(passport, 2.5, None)


def test_emissions_need_measured_energy():
    assert overlay.carbon_kg(build(rich(), toy_formulas), 0.4) == pytest.approx(500_000 / 3.6e6 * 0.4)
    assert overlay.carbon_kg(build(cpu_run(), toy_formulas), 0.4) == Absent("no GPU in this run")


def test_without_a_factor_there_is_no_section_and_the_passport_stays_as_it_is():
    passport = build(rich(), toy_formulas)
    before = copy.deepcopy(passport)
    assert overlay.section(passport, None, None) == ""
    overlay.section(passport, 1.0, 1.0)
    assert passport == before


def test_runs_stand_side_by_side():
    table = compare.table([build(RECORDS[name](), toy_formulas) for name in ("rich", "cpu", "empty")])
    lines = dict(line.strip("| ").split(" | ", 1) for line in table.splitlines() if "---" not in line)
    assert lines["run"] == "abc123 | unknown run | unknown run"
    assert lines["tokens"] == "103,424 tokens | 11,264 tokens (assumed) | n/a"
    assert lines["end"] == "finished | killed | n/a"
    assert {line.count(" | ") for line in table.splitlines() if "---" not in line} == {3}


@pytest.mark.parametrize("name", RECORDS)
def test_pictures_are_svg_for_light_and_dark_pages_without_script_or_network(name):
    passport = build(RECORDS[name](), toy_formulas)
    for text in (svg.time_shares(passport), svg.ladder(passport)):
        root = ET.fromstring(text)
        assert root.tag == SVG + "svg"
        assert "prefers-color-scheme:dark" in text
        assert not {element.tag.removeprefix(SVG) for element in root.iter()} - {"svg", "style", "rect", "text"}
        assert text.count("http") == 1


def test_the_parts_of_the_time_bar_fill_it():
    root = ET.fromstring(svg.time_shares(build(rich(), toy_formulas)))
    bar = [float(rect.attrib["width"]) for rect in root.iter(SVG + "rect") if rect.get("y") == "30"]
    assert sum(bar) == pytest.approx(svg.WIDTH, abs=0.1)


def test_an_unknown_rung_has_no_bar():
    root = ET.fromstring(svg.ladder(build(cpu_run(), toy_formulas)))
    assert list(root.iter(SVG + "rect")) == []
    assert [text.text for text in root.iter(SVG + "text")].count("n/a") == 6
