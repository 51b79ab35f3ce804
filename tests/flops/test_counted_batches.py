"""What was counted of one micro-batch holds for all of the same lengths, and for no others."""

from __future__ import annotations

import pytest

from tests.flops.published import shape_from_config
from tests.known import known
from trainmeter_core.flops import training_flops
from trainmeter_core.flops.counted import Counted, counted_from
from trainmeter_core.flops.executed import executed_flops
from trainmeter_core.meter import Meter
from trainmeter_core.model_shape import Batch
from trainmeter_core.readings import Absent


def test_a_count_is_linear_in_sequences_and_stays_whole_where_it_can():
    counted = Counted(((4, 128, 0, 4 * 10**15 + 2),), (), "")
    assert counted.of_batches([(4, 128, 0, 3), (2, 128, 0, 1)]) == 3 * (4 * 10**15 + 2) + 2 * 10**15 + 1
    assert counted.of_batches([(1, 128, 0, 1)]) == 10**15 + 0.5


@pytest.mark.parametrize(
    ("counted", "rows", "why"),
    [
        (Counted(), [(4, 128, 0, 1)], "were not counted"),
        (Counted(((4, 128, 0, 8),), (), ""), [(4, 128, 0, 1), (4, 64, 0, 3)], "3 of 4 micro-batches"),
        (Counted(((4, 128, 0, 8),), (), ""), [], "no batch was seen"),
    ],
)
def test_what_was_not_counted_is_absent(counted, rows, why):
    assert why in str(counted.of_batches(rows))


def test_a_count_with_gaps_is_told_but_makes_no_hfu():
    counted = Counted(((4, 128, 0, 8),), ("flash_attn::fwd (2 times)",), "")
    assert counted.of_batches([(4, 128, 0, 1)]) == 8
    assert "flash_attn::fwd" in str(counted.executed([(4, 128, 0, 1)]))


@pytest.mark.parametrize("fields", [{}, {"counts": [[0, 8, 0, 1]], "gaps": []}, {"counts": [[1, 2]], "gaps": []}])
def test_an_event_that_is_none_is_refused(fields):
    with pytest.raises((KeyError, TypeError, ValueError)):
        counted_from(fields)


def test_layers_that_are_recomputed_leave_the_head_alone():
    """Hugging Face's checkpointing wraps layers: 4/3 of exact but for the head."""
    shape, batch = shape_from_config("llama-3-8b"), Batch(1, 4096)
    head = 6 * 4096 * 4096 * 128256
    layers = known(training_flops("exact", shape, batch)) - head
    assert 3 * known(executed_flops(shape, batch, "layers")) == 4 * layers + 3 * head


def test_the_meter_publishes_hfu_from_the_count_and_else_from_what_the_model_shows():
    shape, batches = shape_from_config("llama-3-8b"), {(1, 4096, 0): 2}
    meter = Meter(shape)
    assert isinstance(meter.executed(batches), Absent)
    meter.recompute = "layers"
    assert meter.executed(batches) == 2 * known(executed_flops(shape, Batch(1, 4096), "layers"))
    meter.counted = Counted(((1, 4096, 0, 7 * 10**14),), (), "")
    assert meter.executed(batches) == 14 * 10**14
