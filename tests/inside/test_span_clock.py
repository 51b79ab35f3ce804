"""Every moment of the training thread belongs to one kind of time; a clock moved by hand tells which."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmeter_core.inside import span_clock
from trainmeter_core.inside.span_clock import CHECKPOINT, DATA_WAIT, ELSEWHERE, EVAL, LOGGING, OTHER, STEP, SpanClock
from trainmeter_core.series import TIME_KINDS


class Hand:
    """A clock that stands until it is moved."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def hand(monkeypatch):
    hand = Hand()
    monkeypatch.setattr(span_clock, "monotonic", hand)
    return hand


def told(clock: SpanClock, now: float) -> dict[str, float]:
    return {kind: seconds for kind, seconds in zip(TIME_KINDS, clock.until(now), strict=True) if seconds}


def test_what_no_span_covers_is_the_base(hand):
    clock = SpanClock(hand.now)
    hand.now += 1
    clock.set_base(STEP)
    hand.now += 2
    clock.set_base(EVAL)
    hand.now += 4
    assert told(clock, hand.now) == {"other": 1.0, "step": 2.0, "eval": 4.0}


def test_nested_spans_count_once_to_the_innermost(hand):
    clock = SpanClock(hand.now)
    outer = clock.enter(EVAL)
    hand.now += 1
    inner = clock.enter(DATA_WAIT)
    hand.now += 2
    assert clock.leave(inner) == 2.0
    hand.now += 4
    assert clock.leave(outer) == 4.0
    hand.now += 8
    assert told(clock, hand.now) == {"eval": 5.0, "data_wait": 2.0, "other": 8.0}


def test_a_span_returns_to_the_base_as_it_is_then(hand):
    """A log call in the course of which the step began."""
    clock = SpanClock(hand.now)
    span = clock.enter(LOGGING)
    clock.set_base(STEP)
    hand.now += 1
    clock.leave(span)
    hand.now += 2
    assert told(clock, hand.now) == {"logging": 1.0, "step": 2.0}


def test_an_open_span_goes_on_after_the_sums_are_read(hand):
    clock = SpanClock(hand.now)
    span = clock.enter(CHECKPOINT)
    hand.now += 1
    assert told(clock, hand.now) == {"checkpoint": 1.0}
    hand.now += 2
    clock.leave(span)
    assert told(clock, hand.now) == {"checkpoint": 3.0}


def test_another_thread_changes_nothing(hand):
    clock = SpanClock(hand.now)
    seen = []

    def elsewhere():
        span = clock.enter(DATA_WAIT)
        hand.now += 5
        seen.extend([span, clock.leave(span)])

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [ELSEWHERE, 0.0]
    assert told(clock, hand.now) == {"other": 5.0}


moves = st.lists(
    st.tuples(
        st.sampled_from(["enter", "leave", "base", "until"]), st.sampled_from(range(OTHER + 1)), st.integers(0, 9)
    ),
    max_size=60,
)


@given(moves)
def test_the_parts_always_add_up_to_the_whole(moves):
    """Whatever is entered, left and taken in whatever order."""
    hand = Hand()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(span_clock, "monotonic", hand)
        clock, spans = SpanClock(hand.now), []
        for move, kind, seconds in moves:
            hand.now += seconds
            if move == "enter":
                spans.append(clock.enter(kind))
            elif move == "leave" and spans:
                clock.leave(spans.pop())
            elif move == "base":
                clock.set_base(kind)
            elif move == "until":
                assert sum(clock.until(hand.now)) == hand.now - 100.0
        assert sum(clock.until(hand.now)) == hand.now - 100.0
        while spans:
            clock.leave(spans.pop())
        assert clock.current == clock.base
