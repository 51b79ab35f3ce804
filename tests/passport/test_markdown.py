"""The passport as Markdown: the golden documents, and nothing of a run's strings acts as markup."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.passport.passport_runs import RECORDS, cpu_run, rich, toy_formulas
from trainmeter_core.passport.build import build
from trainmeter_core.passport.markdown import cell, escape, figure, headline, render
from trainmeter_core.readings import Absent

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", ["rich", "cpu"])
def test_the_document_is_as_agreed(name):
    """After a wanted change: look at the new text, then write it over the golden file."""
    assert render(build(RECORDS[name](), toy_formulas)) == (GOLDEN / f"{name}.md").read_text()


def test_a_record_of_nothing_still_makes_a_document():
    text = render(build(RECORDS["empty"](), toy_formulas))
    assert text.startswith("# Training passport: unknown script")
    assert "None" not in text


def test_the_headline_names_convention_peak_and_where_it_came_from():
    line = headline(build(rich(), toy_formulas))
    assert "(torchtitan; peak 989.4 TFLOP/s bfloat16 per device, H100 SXM datasheet)" in line
    assert "\n" not in line


def test_the_headline_says_why_there_is_no_mfu():
    assert "MFU n/a: no GPU, so no peak: give the peak of one device with --peak-tflops" in headline(
        build(cpu_run(), toy_formulas)
    )


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (6_284_918_784, "FLOPs", "6.285 GFLOPs"),
        (10**22, "FLOPs", "10 ZFLOPs"),
        (999_960, "FLOPs", "1 MFLOPs"),
        (512, "FLOPs", "512 FLOPs"),
        (0, "FLOPs", "0 FLOPs"),
        (2**30, "bytes", "1.074 GB"),
        (12, "bytes", "12 bytes"),
        (1_234_567, "tokens", "1,234,567 tokens"),
        (0.123456, "%", "0.1235 %"),
        (123456.7, "tokens/s", "123,457 tokens/s"),
        (Absent("a | b"), "tokens", "n/a: a \\| b"),
    ],
)
def test_numbers_are_shown_with_four_digits_and_counts_in_full(value, unit, shown):
    assert figure(value, unit) == shown


def test_a_number_says_when_the_user_gave_it_or_it_was_assumed():
    assert cell({"value": 1.5, "unit": "TFLOP/s", "source": "user"}) == "1.5 TFLOP/s (given by the user)"
    assert cell({"value": 2, "unit": "devices", "source": "assumed"}) == "2 devices (assumed)"
    assert cell({"value": 2, "unit": "devices", "source": "counted"}) == "2 devices"
    assert cell(None) == "n/a"


HOSTILE = "a|b\n# c\r\n<script>alert(1)</script> [x](javascript:1) `y` **z** ![p](http://h/p.png) &amp; @me #1 \u202e~~s~~ $m$"


def planted(passport, text):
    """The passport with a text in every place that holds one of the run's strings."""
    edited = copy.deepcopy(passport)
    for name in ("run_id", "name", "script", "started", "git_commit"):
        edited["identity"][name] = text
    edited["identity"]["command"] = [text, text]
    edited["identity"]["trackers"] = [{"tracker": text, "where": {text: text}}]
    edited["software"] = {**dict.fromkeys(edited["software"], text), "packages": {text: text}}
    for name in ("cpu", "interconnect"):
        edited["hardware"][name] = text
    edited["hardware"]["gpus"][0]["name"] = text
    edited["options"]["peak_source"] = edited["options"]["peak_dtype"] = text
    edited["model"]["family"] = edited["model"]["shape_source"] = text
    edited["losses"] = {text: next(iter(edited["losses"].values()))}
    edited["gaps"].append({"field": text, "reason": text})
    return edited


def test_no_string_of_the_run_is_markup_in_the_rendered_page():
    """Rendered by a CommonMark parser with GitHub's tables, HTML allowed: only our own elements come out."""
    markdown_it = pytest.importorskip("markdown_it")
    parser = markdown_it.MarkdownIt("gfm-like", {"linkify": False})
    passport = build(rich(), toy_formulas)

    def elements(text):
        tokens = [inner for token in parser.parse(text) for inner in (token, *(token.children or []))]
        return [token.type for token in tokens if token.type not in ("text", "text_special")]

    assert elements(render(planted(passport, HOSTILE))) == elements(render(planted(passport, "plain")))


@given(st.text())
def test_escaped_text_never_breaks_its_cell(text):
    shown = escape(text)
    assert not set(shown) & set("\n\r<>\x00\u2028\u202e")
    assert "|" not in shown.replace("\\|", "")
