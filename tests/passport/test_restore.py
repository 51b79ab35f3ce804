"""A passport that was read from a tracker gives a record from which the same passport is built."""

from __future__ import annotations

import json

import pytest

from tests.passport.passport_runs import RECORDS, rich, toy_formulas
from trainmeter_core.passport.build import build
from trainmeter_core.passport.restore import restore


@pytest.mark.parametrize("name", list(RECORDS))
def test_building_again_gives_the_same_passport_to_the_last_digit(name):
    passport = build(RECORDS[name](), toy_formulas)
    travelled = json.loads(json.dumps(passport))
    assert build(restore(travelled), toy_formulas) == passport


def test_ranks_that_were_not_seen_stay_assumed():
    record = rich()
    record.world_size = 8
    passport = build(record, toy_formulas)
    assert passport["data"]["tokens"]["source"] == "assumed"
    assert build(restore(passport), toy_formulas) == passport


def test_an_object_that_is_no_passport_is_refused():
    with pytest.raises(KeyError):
        restore({"version": "trainmeter-passport/1"})
