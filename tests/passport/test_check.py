"""A passport that was edited does not pass."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from passport_runs import RECORDS, cpu_run, rich, toy_formulas

from trainmeter_core.passport.build import build, digest
from trainmeter_core.passport.check import check

PASSPORT = json.loads(json.dumps(build(rich(), toy_formulas)))
DERIVED = ("compute", "efficiency", "time.shares")


def number_paths(value, path=()):
    """Where a passport holds numbers: the values of its number objects, and the rows of its tables."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from number_paths(inner, (*path, name))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from number_paths(inner, (*path, at))
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path


NUMBERS = list(number_paths({name: part for name, part in PASSPORT.items() if name not in ("gaps", "digest")}))


def edited(path, value):
    passport = copy.deepcopy(PASSPORT)
    target = passport
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    return passport


@pytest.mark.parametrize("name", RECORDS)
def test_what_was_built_holds(name):
    passport = build(RECORDS[name](), toy_formulas)
    assert check(json.loads(json.dumps(passport)), toy_formulas) == [] or passport["model"]["description"] is None


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(NUMBERS), st.integers(-(10**15), 10**15) | st.floats(allow_nan=False, allow_infinity=False))
def test_any_edited_number_is_found(path, value):
    before = PASSPORT
    for step in path:
        before = before[step]
    findings = check(edited(path, value), toy_formulas)
    assert bool(findings) == (json.dumps(value) != json.dumps(before))


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([path for path in NUMBERS if ".".join(map(str, path)).startswith(DERIVED)]), st.floats(0.5, 2))
def test_an_edited_derived_number_is_found_by_name_even_with_a_new_digest(path, factor):
    before = PASSPORT
    for step in path:
        before = before[step]
    forged = edited(path, before * factor + 1)
    forged["digest"] = digest(forged)
    field = ".".join(map(str, path[:-1]))
    assert field in [finding.field for finding in check(forged, toy_formulas)]


@pytest.mark.parametrize(
    ("field", "follows"),
    [
        (("steady", "seconds", "value"), "efficiency.mfu_pct"),
        (("options", "peak_tflops", "value"), "efficiency.mfu.hf"),
        (("data", "batches", "rows", 0, 3), "compute.flops.torchtitan"),
        (("time", "rank_seconds", "checkpoint", "value"), "time.shares.step"),
        (("hardware", "devices", "value"), "efficiency.tokens_per_s_per_device"),
    ],
)
def test_an_edited_input_shows_in_what_follows_from_it(field, follows):
    forged = edited(field, 12345)
    forged["digest"] = digest(forged)
    assert follows in [finding.field for finding in check(forged, toy_formulas)]


def test_a_number_put_where_none_is_known_is_found_with_the_reason():
    passport = build(cpu_run(), toy_formulas)
    passport["efficiency"]["mfu_pct"] = {"value": 55.0, "unit": "percent", "source": "formula"}
    passport["digest"] = digest(passport)
    (finding,) = [each for each in check(passport, toy_formulas) if each.field == "efficiency.mfu_pct"]
    assert finding.said == "55.0"
    assert finding.follows.startswith("n/a: no GPU, so no peak")


def test_a_verdict_that_does_not_follow_and_one_taken_away_are_found():
    """What was seen while the run went on follows from nothing: there only the digest tells."""
    forged = copy.deepcopy(PASSPORT)
    derived = [verdict for verdict in forged["verdicts"] if verdict["source"] == "formula"]
    assert [verdict["code"] for verdict in derived] == ["launch_bound"]
    forged["verdicts"].remove(derived[0])
    forged["digest"] = digest(forged)
    assert [finding.field for finding in check(forged, toy_formulas)] == ["verdicts"]
