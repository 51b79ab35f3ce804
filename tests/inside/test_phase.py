"""One number of the ring always says what the training thread does, for the moment when no step ends any more."""

from __future__ import annotations

import threading

from trainmeter_core.inside import span_clock
from trainmeter_core.inside.ring import Ring
from trainmeter_core.inside.span_clock import SpanClock
from trainmeter_core.outside.ring_reader import RingReader
from trainmeter_core.ring_format import Identity
from trainmeter_core.series import TIME_KINDS


def test_the_reader_sees_every_switch(tmp_path):
    ring = Ring(str(tmp_path / "r0-1.ring"), Identity(1, 0, 0, 1, 0.0, 0.0, 0.0))
    clock = SpanClock(0.0)
    clock.page = ring.page
    reader = RingReader(ring.path)
    seen = []

    def look():
        seen.append(TIME_KINDS[reader.phase()])

    clock.set_base(span_clock.STEP)
    look()
    outer = clock.enter(span_clock.CHECKPOINT)
    look()
    inner = clock.enter(span_clock.LOGGING)
    look()
    clock.leave(inner)
    look()
    clock.leave(outer)
    look()
    clock.set_base(span_clock.OTHER)
    look()
    assert seen == ["step", "checkpoint", "logging", "checkpoint", "step", "other"]


def test_another_thread_does_not_speak_for_the_training_thread(tmp_path):
    clock = SpanClock(0.0)
    clock.set_base(span_clock.STEP)
    before = list(clock.page)
    thread = threading.Thread(target=lambda: clock.leave(clock.enter(span_clock.LOGGING)))
    thread.start()
    thread.join()
    assert clock.page == before


def test_before_there_is_a_ring_a_switch_goes_nowhere():
    clock = SpanClock(0.0)
    clock.leave(clock.enter(span_clock.DATA_WAIT))
    assert len(clock.page) < 1000
