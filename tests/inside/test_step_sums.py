"""Running sums: what is added is all there, whatever resembles what, and a span is the difference of its two ends."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from trainmeter_core.inside.step_sums import Batches, Sums
from trainmeter_core.series import TIME_KINDS

shape = st.tuples(st.integers(1, 3), st.integers(0, 3), st.integers(0, 2))
steps = st.lists(st.dictionaries(shape, st.integers(1, 3), max_size=3), max_size=30)


@given(steps)
def test_every_step_is_in_the_total(steps):
    used = Batches()
    expected: Counter = Counter()
    for step in steps:
        tokens, samples, micro, *_ = used.add(step)
        assert tokens == sum(b * t * calls for (b, t, _), calls in step.items())
        assert samples == sum(b * calls for (b, _, _), calls in step.items())
        assert micro == sum(step.values())
        expected.update(step)
    assert used.total() == dict(expected)


def test_a_step_stays_its_callers_who_may_clear_it():
    used, step = Batches(), {(4, 16, 0): 2}
    used.add(step)
    step.clear()
    used.add({(4, 16, 0): 2})
    assert used.total() == {(4, 16, 0): 4}


def test_the_lengths_are_those_of_the_last_shape():
    assert Batches().add({(4, 16, 0): 1, (2, 8, 5): 3}) == (112, 10, 4, 8, 5)


@given(steps, steps)
def test_what_lies_between_two_ends_is_what_was_added_there(before, after):
    used, between = Batches(), Batches()
    for step in before:
        used.add(step)
    earlier = Sums(len(before), 1, 10.0, [1.0] * len(TIME_KINDS), used.total())
    for step in after:
        used.add(step)
        between.add(step)
    now = Sums(len(before) + len(after), 3, 14.5, [3.0] * len(TIME_KINDS), used.total())
    span = now.since(earlier)
    assert (span.steps, span.skipped, span.end) == (len(after), 2, 4.5)
    assert span.seconds == [2.0] * len(TIME_KINDS)
    assert span.batches == between.total()
