"""Two passports of one run, from its directory and from a tracker."""

from __future__ import annotations

import copy

import pytest

from tests.passport.passport_runs import rich, toy_formulas
from trainmeter_core.passport.build import build
from trainmeter_core.passport.same import MAY_DIFFER, differences


@pytest.fixture
def passport():
    return build(rich(), toy_formulas)


def test_a_passport_is_that_of_its_own_run(passport):
    assert differences(passport, copy.deepcopy(passport)) == []


def test_a_count_that_differs_is_named_by_its_field(passport):
    other = copy.deepcopy(passport)
    other["data"]["tokens"]["value"] += 1
    assert differences(passport, other) == ["data.tokens.value"]


def test_a_duration_may_be_rounded_to_32_bits(passport):
    other = copy.deepcopy(passport)
    other["steady"]["seconds"]["value"] *= 1 + 1e-6
    assert differences(passport, other) == []
    other["steady"]["seconds"]["value"] *= 1 + 1e-4
    assert differences(passport, other) == ["steady.seconds.value"]


def test_fields_that_may_differ_are_fields_of_a_passport(passport):
    for name in MAY_DIFFER:
        found = passport
        for part in name.split("."):
            found = found[part]


def test_they_may_differ(passport):
    other = copy.deepcopy(passport)
    other["ends"] = {"how": "killed"}
    other["time"]["wall_s"]["value"] = 1.0
    assert differences(passport, other) == []
