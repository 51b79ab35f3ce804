"""The fewest bytes of a step: its formula on numbers that are worked out by hand, and its limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.known import known
from trainmeter_core.ladder import model_intensity
from trainmeter_core.readings import Absent
from trainmeter_core.weight_traffic import Traffic, weight_traffic


def described(forward, *, backward=None, trained=None, dtype="bfloat16", **more):
    table = {"forward": {dtype: forward}, "backward": {dtype: forward if backward is None else backward}}
    moved = forward if trained is None else trained
    return {"bytes": {**table, "gradients": moved, "trained": moved}, **more}


@pytest.mark.parametrize(("micro_batches", "expected"), [(1, 12_000), (4, 24_000)])
def test_a_thousand_weights_of_two_bytes(micro_batches, expected):
    """2 P w m + 2 T g + 2 T w with P = T = 1000 and w = g = 2: 4000 m + 4000 + 4000."""
    traffic = known(weight_traffic(described(2000)))
    assert traffic.fewest_bytes(micro_batches, 1) == expected


def test_adapters_of_ten_weights_on_a_thousand_frozen_ones():
    """The frozen weights are read and no more: 2 * 1010 * 2 + 2 * 10 * 2 + 2 * 10 * 2."""
    assert known(weight_traffic(described(2020, trained=20))).fewest_bytes(1, 1) == 4040 + 40 + 40


def test_a_frozen_backbone_is_not_read_again():
    """A thousand frozen weights in front of a head of ten, whose input has no gradient: one read of each."""
    assert known(weight_traffic(described(2020, backward=0, trained=20))).fewest_bytes(1, 1) == 2020 + 80


def test_autocast_reads_a_weight_once_as_it_is_stored():
    """P = 1000 of 4 bytes: forward 4 P, then 2 P in the other three passes of two micro-batches; 2*4 P, 2*4 P."""
    traffic = known(weight_traffic(described(4000, dtype="float32", autocast="bfloat16")))
    assert traffic.fewest_bytes(2, 1) == 4000 + 3 * 2000 + 8000 + 8000


def test_autocast_leaves_narrow_weights_as_they_are():
    assert weight_traffic(described(2000, autocast="bfloat16")) == weight_traffic(described(2000))


def test_experts_that_a_position_passes_by_are_trained_and_need_not_be_read():
    """1000 weights of which 600 are inactive: 2 * 400 * 2 in each micro-batch, 8000 in a step."""
    assert weight_traffic(described(2000), inactive=600) == Traffic(1600, 8000)


@pytest.mark.parametrize(
    ("description", "inactive", "why"),
    [
        (Absent("no model was seen"), 0, "no model was seen"),
        ({"class": "Old"}, 0, "does not tell the bytes"),
        ({"bytes": None}, 0, "does not tell the bytes"),
        ({"bytes": {"forward": 3}}, 0, "does not tell the bytes"),
        ({"bytes": {"forward": {"float32": -4}, "backward": {}, "gradients": 0, "trained": 0}}, 0, "does not tell"),
        (described(2000, stages=2), 0, "one of 2 pipeline stages"),
        (described(2000), Absent("experts are not visible"), "experts are not visible"),
    ],
)
def test_what_is_not_known_is_absent_with_its_reason(description, inactive, why):
    found = weight_traffic(description, inactive)
    assert isinstance(found, Absent)
    assert why in found.reason


def test_the_gpt2_style_model_of_1_04_b_parameters():
    """Eight sequences of 1024 tokens in bfloat16, one micro-batch a step.

    Of N = 1,039,622,144 the tables have 32000 * 2048 + 1024 * 2048, so that a forward reads 971,988,992; the biases
    are 18 * (6144 + 2048 + 8192 + 2048 + 2 * 2048) + 2048 = 407,552, so that a backward reads 971,581,440. FLOPs per
    token are torchtitan's golden 6,284,918,784.
    """
    parameters, forward, backward = 1_039_622_144, 971_988_992, 971_581_440
    traffic = known(weight_traffic(described(2 * forward, backward=2 * backward, trained=2 * parameters)))
    assert traffic == Traffic(3_887_140_864, 8_316_977_152)
    flops = 6_284_918_784 * 8 * 1024
    assert model_intensity(flops, traffic.fewest_bytes(1, 1)) == flops / 12_204_118_016
    assert round(flops / 12_204_118_016, 1) == 4218.7


@given(
    forward=st.dictionaries(st.sampled_from(("float32", "bfloat16", "uint8")), st.integers(0, 10**12), min_size=1),
    trained=st.integers(0, 10**12),
    micro_batches=st.integers(1, 64),
    steps=st.integers(1, 64),
    cast=st.sampled_from(("", "bfloat16")),
)
def test_intensity_is_never_above_flops_over_one_read_of_the_weights(forward, trained, micro_batches, steps, cast):
    """However many passes are left out, each step reads every weight of a dense model once, as it is stored."""
    table = {"forward": forward, "backward": {}, "gradients": trained, "trained": trained}
    moved = known(weight_traffic({"bytes": table, "autocast": cast})).fewest_bytes(micro_batches * steps, steps)
    assert moved >= sum(forward.values()) * steps
    intensity = model_intensity(10**15, moved)
    assert isinstance(intensity, Absent) or intensity <= 10**15 / max(1, sum(forward.values()) * steps)


@given(forward=st.integers(0, 10**6), inactive=st.integers(0, 10**7))
def test_no_number_of_experts_makes_bytes_negative(forward, inactive):
    traffic = known(weight_traffic(described(forward), inactive))
    assert traffic.micro_batch >= 0
    assert traffic.step >= 0
