"""A passport that was edited does not pass."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.passport.passport_runs import RECORDS, cpu_run, rich, toy_formulas
from trainmeter_core.passport.build import build, digest
from trainmeter_core.passport.check import check
from trainmeter_core.passport.leaves import FIELDS, FOLLOWS, INPUT, TOLD, kind_of
from trainmeter_core.passport.schema import load, problems
from trainmeter_core.readings import Absent
from trainmeter_core.run_tables import Statistics

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
        (("model", "description", "bytes", "trained"), "efficiency.intensity.model"),
    ],
)
def test_an_edited_input_shows_in_what_follows_from_it(field, follows):
    forged = edited(field, 12345)
    forged["digest"] = digest(forged)
    assert follows in [finding.field for finding in check(forged, toy_formulas)]


def leaves(value, path=()):
    """Every value of a passport that holds no other, with where it stands."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not inner or not value:
        yield path
    for name, each in inner:
        yield from leaves(each, (*path, name))


def at(passport, path):
    for step in path:
        passport = passport[step]
    return passport


def signed(passport):
    return {**passport, "digest": digest(passport)}


def names(findings, path):
    """Whether a check named the place."""
    place = ".".join(map(str, path))
    fields = [finding.field for finding in findings]
    return any(f"{place}.".startswith((f"{field}.", f"{field}.value.")) for field in fields)


def another(value):
    """Values of the same kind that are not this one, to the precision of a check."""
    if isinstance(value, bool):
        return st.just(not value)
    if isinstance(value, int):
        return (st.integers(0, 2**53) | st.integers()).filter(lambda new: new != value)
    if isinstance(value, float):
        return st.floats(allow_nan=False, allow_infinity=False).filter(lambda new: abs(new - value) > 1e-6 * abs(value))
    if isinstance(value, str):
        return st.text(max_size=30).filter(lambda new: new != value)
    if value is None:
        return st.just({"value": 7, "unit": "percent", "source": "formula"}) | st.just("text")
    return st.just([]).filter(lambda new: new != value)


BUILT = {name: json.loads(json.dumps(build(made(), toy_formulas))) for name, made in RECORDS.items()}
PLACES = [(name, path) for name, passport in BUILT.items() for path in leaves(passport)]
FOLLOWING = [(name, path) for name, path in PLACES if kind_of(path) == FOLLOWS and path != ("digest",)]


def test_every_field_is_one_that_follows_an_input_or_told():
    """No field is unknown to the check: of passports as they are, and of the schema."""
    assert {kind_of(path) for _, path in PLACES} == {FOLLOWS, INPUT, TOLD}
    for path in schema_places(load()):
        assert kind_of(path) in {FOLLOWS, INPUT, TOLD}
    with pytest.raises(KeyError):
        kind_of(("a field that is new",))


def schema_places(node, path=()):
    inner = {**node.get("properties", {})}
    if isinstance(node.get("additionalProperties"), dict):
        inner["any"] = node["additionalProperties"]
    if isinstance(node.get("items"), dict):
        inner["0"] = node["items"]
    if not inner and path:
        yield path
    for name, each in inner.items():
        yield from schema_places(each, (*path, name))


@settings(max_examples=600, deadline=None)
@given(st.data())
def test_whatever_follows_is_named_when_it_was_edited_even_with_a_new_digest(data):
    """An edit that makes it no passport any more is refused before it is checked."""
    name, path = data.draw(st.sampled_from(FOLLOWING))
    forged = copy.deepcopy(BUILT[name])
    at(forged, path[:-1])[path[-1]] = data.draw(another(at(forged, path)))
    forged = signed(forged)
    if not problems(forged):
        assert names(check(forged, toy_formulas), path), path


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_edit_at_all_is_found_by_the_digest(data):
    name, path = data.draw(st.sampled_from(PLACES))
    forged = copy.deepcopy(BUILT[name])
    at(forged, path[:-1])[path[-1]] = data.draw(another(at(forged, path)))
    assert problems(forged) or "digest" in [finding.field for finding in check(forged, toy_formulas)]


def test_something_follows_from_every_input():
    """From each kind of field that the table calls an input, in one of the passports at one of some values."""
    shows = set()
    for passport in [*BUILT.values(), *with_other_budgets(), stuck_and_throttled()]:
        for path in leaves(passport):
            if kind_of(path) != INPUT:
                continue
            pattern = next(field for field in INPUTS if fits(field, path))
            values: tuple = (0, 1, 45.5, 98, 4096, 10**9, "fp8", "hf", None, {}, ["x"])
            for value in () if pattern in shows else values:
                forged = copy.deepcopy(passport)
                at(forged, path[:-1])[path[-1]] = value
                if not problems(signed(forged)) and check(signed(forged), toy_formulas):
                    shows.add(pattern)
                    break
    assert set(INPUTS) - shows == set()


INPUTS = sorted((field for field, kind in FIELDS.items() if kind == INPUT), key=len, reverse=True)


def fits(field, path):
    parts = field.split(".")
    return len(parts) <= len(path) and all(part in ("*", str(step)) for part, step in zip(parts, path, strict=False))


def with_other_budgets():
    for budget, value in {"budget_steps": 500, "budget_hours": 2.0, "budget_flops": 1e18}.items():
        record = rich()
        record.options.budget_tokens = Absent("no budget was given")
        setattr(record.options, budget, value)
        yield json.loads(json.dumps(build(record, toy_formulas)))


def stuck_and_throttled():
    """A kernel that always runs, no matrix work, little power; a clock that the power limit holds down."""
    record = rich()
    for readings in record.steady_gpus.table.values():
        for name, value in {"graphics_util_pct": 99.9, "tensor_active_pct": 0.1, "power_w": 90.0}.items():
            readings[name] = Statistics(1, value, value, value)
        readings["sm_clock_mhz"] = Statistics(1, 1100.0, 1100.0, 1100.0)
    return json.loads(json.dumps(build(record, toy_formulas)))


def test_a_passport_of_more_ranks_than_any_run_costs_no_memory():
    forged = edited(("hardware", "ranks_seen", "value"), 10**15)
    assert "passport" in [finding.field for finding in check(forged, toy_formulas)]


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
