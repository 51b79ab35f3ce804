"""The ring: what an agent writes is what tm reads, whatever the counts, and what was lost is said."""

from __future__ import annotations

import itertools
import math
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainmeter_core import ring_format as layout
from trainmeter_core.inside import ring as ring_module
from trainmeter_core.inside.ring import Ring
from trainmeter_core.outside import drain as drain_module
from trainmeter_core.outside.ring_reader import RingReader

WHO = layout.Identity(4242, 3, 1, 8, 1.7e9, 5000.0, 4990.0)
SECONDS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
U32 = 0xFFFFFFFF


@pytest.fixture
def ring(tmp_path):
    return Ring(str(tmp_path / "r3-4242.ring"), WHO)


@pytest.fixture
def small(monkeypatch):
    """A ring of 16 records, so that it wraps around soon."""
    for module in (layout,):
        monkeypatch.setattr(module, "CAPACITY", 16)
        monkeypatch.setattr(module, "RING_BYTES", layout.HEADER_SIZE + 16 * layout.RECORD_SIZE)
    assert vars(ring_module)["layout"] is vars(drain_module)["layout"] is layout


def step(ring: Ring, number: int, shapes: dict | None = None, flags: int = 0, totals=(0, 0, 0, 0, 0)) -> None:
    """Write one step as the agent does: its shapes first where they differ, then the record, then the totals."""
    shapes = shapes if shapes is not None else {(4, 16, 0): 1}
    calls = sum(shapes.values())
    tokens = sum(b * t * n for (b, t, _), n in shapes.items())
    samples = sum(b * n for (b, _, _), n in shapes.items())
    if len(shapes) > 1:
        flags |= layout.FLAG_MIXED_SHAPES
        ring.shapes(number, shapes)
    _, length, target = next(iter(shapes), (0, 0, 0))
    ring.step(
        layout.STEP_RECORD, flags, calls, number, 5000.0 + number, tokens, samples, length, target, SECONDS, totals
    )


def test_the_identity_is_read_as_it_was_written(ring):
    assert RingReader(ring.path).identity == WHO


def test_a_record_is_read_as_it_was_written(ring):
    step(ring, 7, {(4, 16, 9): 3}, flags=layout.FLAG_STARTUP)
    [(record, shapes)] = RingReader(ring.path).steps()
    assert record == (layout.STEP_RECORD, layout.FLAG_STARTUP, 3, 7, 5007.0, 192, 12, 16, 9, *SECONDS)
    assert shapes == {(4, 16, 9): 3}


def test_clocks_translate(ring):
    assert RingReader(ring.path).wall_clock(5012.5) == 1.7e9 + 12.5


shape = st.tuples(st.integers(1, 1 << 20), st.integers(0, 1 << 20), st.integers(0, U32))
batches = st.dictionaries(
    st.tuples(st.integers(1, 999), st.integers(0, 999), st.integers(0, 99)), st.integers(1, 999), max_size=9
)


@given(st.lists(st.lists(batches, max_size=12), max_size=12))
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_written_is_read_also_over_the_end_of_the_ring(tmp_path_factory, small, looks):
    """Any steps with any shapes, read between any of them: all arrive once and in order, as long as the reader keeps up."""
    ring = Ring(str(tmp_path_factory.mktemp("ring") / "a.ring"), WHO)
    reader, numbers, expected, told = RingReader(ring.path), itertools.count(1), [], []
    for steps in looks:
        room = layout.CAPACITY
        for shapes in steps:
            records = 1 + (math.ceil(len(shapes) / layout.SHAPES_PER_RECORD) if len(shapes) > 1 else 0)
            room -= records
            if room < 0:
                break
            number = next(numbers)
            step(ring, number, shapes, totals=(number, 0, 0, 0, 0))
            expected.append((number, shapes))
        told += [(record.step, shapes) for record, shapes in reader.steps()]
    assert told == expected
    assert reader.lost == 0


@given(shapes=st.dictionaries(shape, st.integers(1, 0xFFFF), min_size=1, max_size=1), number=st.integers(0, 1 << 40))
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_counts_beyond_a_field_are_cut_in_the_record_and_whole_in_the_totals(tmp_path_factory, small, shapes, number):
    ring = Ring(str(tmp_path_factory.mktemp("ring") / "a.ring"), WHO)
    [((b, t, _), calls)] = shapes.items()
    step(ring, number, shapes, totals=(number, 1, b * t * calls, b * calls, 2))
    reader = RingReader(ring.path)
    [(record, _)] = reader.steps()
    assert record.tokens == min(b * t * calls, U32)
    assert record.samples == min(b * calls, U32)
    if number <= U32 and b * t * calls <= U32:
        assert record.step == number
    assert reader.totals() == (1, number, 1, b * t * calls, b * calls, 2)


def test_totals_beyond_64_bits_do_not_end_the_training(ring):
    with pytest.raises(struct.error):
        step(ring, 1, totals=(1, 0, 1 << 64, 0, 0))  # the agent's guard counts it


def test_a_reader_that_was_outrun_says_how_much_and_keeps_the_totals(small, tmp_path):
    ring = Ring(str(tmp_path / "a.ring"), WHO)
    reader = RingReader(ring.path)
    for number in range(1, 51):
        step(ring, number, totals=(number, 0, 64 * number, 4 * number, 0))
    told = [record.step for record, _ in reader.steps()]
    assert told == list(range(50 - layout.CAPACITY + 1, 51))
    assert reader.lost == 50 - layout.CAPACITY
    assert reader.totals() == (50, 50, 0, 3200, 200, 0)


def test_shapes_whose_first_part_was_overwritten_are_not_given_to_another_step(small, tmp_path):
    ring = Ring(str(tmp_path / "a.ring"), WHO)
    reader = RingReader(ring.path)
    mixed = {(n, 8, 0): 1 for n in range(1, 6)}
    for number in range(1, 8):
        step(ring, number, mixed, totals=(number, 0, 0, 0, 0))
    for record, shapes in reader.steps():
        assert set(shapes) <= set(mixed)
        assert len(shapes) <= 5
        assert record.step >= 2


def test_a_record_that_was_not_finished_is_lost_and_the_next_is_read(ring):
    for number in (1, 2, 3):
        step(ring, number, totals=(number, 0, 0, 0, 0))
    at = layout.HEADER_SIZE + layout.RECORD_SIZE
    ring._map[at + layout.RECORD_SIZE - 4 : at + layout.RECORD_SIZE] = b"\0\0\0\0"
    reader = RingReader(ring.path)
    assert [record.step for record, _ in reader.steps()] == [1, 3]
    assert reader.lost == 1


def test_a_record_of_an_unknown_kind_is_lost(ring):
    step(ring, 1, totals=(1, 0, 0, 0, 0))
    ring._map[layout.HEADER_SIZE] = 77
    reader = RingReader(ring.path)
    assert list(reader.steps()) == []
    assert reader.lost == 1


def test_a_record_before_its_totals_is_not_read_yet(ring, monkeypatch):
    with monkeypatch.context() as between:
        between.setattr(ring_module, "_pack_totals", lambda *_: None)
        step(ring, 1)
    reader = RingReader(ring.path)
    assert list(reader.steps()) == []
    step(ring, 2, totals=(2, 0, 128, 8, 0))
    assert [record.step for record, _ in reader.steps()] == [1, 2]
