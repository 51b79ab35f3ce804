"""The model card: metadata as the card standard has it, pictures beside it, and every number recomputable by hand."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from tests.passport.passport_runs import RECORDS, cpu_run, rich, toy_formulas
from trainmeter_core.passport.build import build
from trainmeter_core.passport.card import card, impact, metadata, picture_tags, pictures_of
from trainmeter_core.passport.sheet import reading
from trainmeter_core.passport.worked import worked


@pytest.fixture
def passport():
    return build(rich(), toy_formulas)


def test_without_a_factor_of_the_users_there_are_no_emissions(passport):
    assert metadata(passport) == "---\ntags:\n- trainmeter\n---\n"
    assert "Carbon" not in impact(passport)


def test_with_one_the_card_has_the_standards_field_in_grams(passport):
    lines = metadata(passport, 0.4).splitlines()
    energy = passport["energy"]["gpu_kwh"]["value"]
    assert f"  emissions: {energy * 400:.6g}" in lines
    assert '  hardware_used: "2 x NVIDIA H100 80GB HBM3"' in lines
    assert (lines[0], lines[-1]) == ("---", "---")
    assert "kg CO2 per kWh given by the user" in impact(passport, 0.4)


def test_without_measured_energy_a_factor_gives_no_emissions():
    passport = build(cpu_run(), toy_formulas)
    assert "emissions" not in metadata(passport, 0.4)
    assert "n/a: no GPU in this run" in impact(passport, 0.4)


def test_hours_are_device_hours(passport):
    assert f"**Hours used (devices x wall hours):** {2 * 64.25 / 3600:.4g} h" in impact(passport)


def test_strings_of_the_run_stay_text_in_the_metadata(passport):
    passport["hardware"]["gpus"][0]["name"] = 'x"\n---\nlicense: mit'
    text = metadata(passport, 0.4)
    assert "\nlicense:" not in text
    assert text.count("---\n") == 2


@pytest.mark.parametrize("name", list(RECORDS))
def test_every_picture_named_in_the_card_is_there_in_both_schemes_and_is_xml(name):
    passport = build(RECORDS[name](), toy_formulas)
    files = pictures_of(passport, "card")
    text = card(passport, None, "card")
    assert set(re.findall(r'(?:src|srcset)="([^"]+)"', text)) == set(files)
    for file, picture in files.items():
        assert ET.fromstring(picture).tag.endswith("svg")
        assert ("fill:#f0f6fc" in picture) == file.endswith("-dark.svg")
        assert "prefers-color-scheme" not in picture


def test_the_pictures_follow_the_page_not_the_reader(passport):
    assert picture_tags(passport, "p").count('<source media="(prefers-color-scheme: dark)"') == 2


@pytest.mark.parametrize("name", ["rich", "cpu"])
def test_a_calculator_comes_to_every_number_that_is_worked_out(name):
    passport = build(RECORDS[name](), toy_formulas)
    lines = list(worked(passport))
    assert {line.field for line in lines} >= {"efficiency.tokens_per_s", "efficiency.tflops"}
    for line in lines:
        left, _, right = line.numbers.rpartition(" = ")
        calculated = eval(left.replace(" x ", " * "), {"__builtins__": {}})
        assert calculated == pytest.approx(float(right), rel=1e-7)
        assert reading(passport, line.field) == pytest.approx(float(right), rel=1e-7)


def test_what_is_not_known_is_not_worked_out():
    assert "efficiency.mfu_pct" not in {line.field for line in worked(build(cpu_run(), toy_formulas))}
    assert list(worked(build(RECORDS["empty"](), toy_formulas))) == []
