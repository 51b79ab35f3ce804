"""What holds between conventions on every dense decoder, and where a convention does not apply."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.known import known
from trainmeter_core.flops import CONVENTIONS, HEADLINE, all_training_flops, explain, flops_per_token, training_flops
from trainmeter_core.model_shape import AttentionCore, Batch, Lookup, Matmul, ModelShape
from trainmeter_core.readings import Absent
from trainmeter_core.shape_from import dense_decoder

NAMES = [
    "hf",
    "megatron",
    "megatron_full",
    "torchtitan",
    "nanochat",
    "nanogpt",
    "palm",
    "kaplan",
    "chinchilla",
    "all_params",
    "exact",
]


@st.composite
def dense_decoders(draw):
    """The numbers of a random dense decoder, and its shape."""
    heads = draw(st.integers(1, 8))
    numbers = {
        "layers": draw(st.integers(1, 6)),
        "width": heads * draw(st.integers(1, 16)),
        "heads": heads,
        "kv_heads": draw(st.sampled_from([n for n in range(1, heads + 1) if heads % n == 0])),
        "head_dim": draw(st.integers(1, 32)),
        "ffn": draw(st.integers(1, 200)),
        "vocabulary": draw(st.integers(2, 500)),
        "gated": draw(st.booleans()),
        "tied": draw(st.booleans()),
        "positions": draw(st.sampled_from([0, 16])),
        "norms": draw(st.integers(0, 99)),
        "qkv_bias": draw(st.booleans()),
        "mlp_bias": draw(st.booleans()),
    }
    return numbers, dense_decoder(**numbers)


batches = st.builds(Batch, st.integers(1, 4), st.integers(1, 64))


def test_the_conventions_are_these_in_this_order():
    assert list(CONVENTIONS) == NAMES
    assert HEADLINE == "torchtitan"
    assert all(c.name == name and c.meaning and c.source for name, c in CONVENTIONS.items())


@given(dense_decoders(), batches)
@settings(max_examples=200, deadline=None)
def test_conventions_differ_by_their_closed_forms(model, batch):
    m, shape = model
    per_batch = {name: training_flops(name, shape, batch) for name in NAMES}
    n, T = batch.tokens, batch.seq_len
    L, q, V, d = m["layers"], m["heads"] * m["head_dim"], m["vocabulary"], m["width"]
    core, head, tables = 12 * L * q * T, 6 * V * d, 6 * shape.lookup_parameters
    norms = 6 * shape.norm_bias_parameters

    def difference(a, b):
        return known(per_batch[a]) - known(per_batch[b])

    assert difference("torchtitan", "hf") == n * (core + (tables if m["tied"] else 0))
    assert difference("torchtitan", "nanochat") == n * (norms + (tables - head if m["tied"] else 0))
    assert difference("megatron_full", "megatron") == n * core // 2
    assert difference("nanochat", "megatron_full") == 0
    assert difference("all_params", "torchtitan") == (0 if m["tied"] else n * tables)
    assert difference("all_params", "palm") == 0
    assert difference("all_params", "nanogpt") == n * 6 * shape.position_lookup_parameters
    assert difference("nanochat", "kaplan") == n * (head + core)
    assert difference("chinchilla", "nanochat") == n * (head + 9 * L * m["heads"] * T)
    assert difference("nanochat", "exact") == n * 6 * L * q * (T - 1)


@given(dense_decoders(), batches)
@settings(max_examples=50, deadline=None)
def test_the_lines_of_a_count_add_up_to_it(model, batch):
    _numbers, shape = model
    for name in NAMES:
        terms = known(explain(name, shape, batch))
        assert sum(term.flops for term in terms) == training_flops(name, shape, batch)
        assert all(isinstance(term.flops, int) and term.term and term.formula for term in terms)


@given(dense_decoders(), batches)
@settings(max_examples=50, deadline=None)
def test_the_formula_of_a_line_gives_its_number_when_computed(model, batch):
    _numbers, shape = model
    for name in NAMES:
        for term in known(explain(name, shape, batch)):
            product = 1
            for factor in term.formula.replace(" / 2 for the causal mask", "").split(" * "):
                number = factor.split()[0]
                product *= int(number) if number.isdigit() else 1
            halves = 2 if "/ 2" in term.formula else 1
            assert product == halves * term.flops, term


@given(dense_decoders(), st.integers(1, 64))
@settings(max_examples=50, deadline=None)
def test_flops_are_linear_in_the_number_of_sequences(model, T):
    _numbers, shape = model
    one, three = all_training_flops(shape, Batch(1, T)), all_training_flops(shape, Batch(3, T))
    assert {name: 3 * known(flops) for name, flops in one.items()} == three


def test_flops_per_token_is_an_integer_whenever_it_divides():
    shape = dense_decoder(layers=1, width=8, heads=2, ffn=16, vocabulary=50)
    assert isinstance(flops_per_token("torchtitan", shape, Batch(2, 7)), int)
    padded = Batch(1, 7, documents=(3,))
    assert flops_per_token("megatron", shape, padded) == known(training_flops("megatron", shape, padded)) / 7


def test_windows_are_exact_in_exact_capped_in_nanochat_and_ignored_elsewhere():
    plain: dict[str, Any] = {"layers": 4, "width": 8, "heads": 2, "ffn": 16, "vocabulary": 50}
    full, local = dense_decoder(**plain), dense_decoder(**plain, windows=(4, None))
    batch, per_key = Batch(1, 16), 12 * 8
    for name in NAMES:
        saved = known(training_flops(name, full, batch)) - known(training_flops(name, local, batch))
        exact_saving = 2 * per_key * (16 * 17 // 2 - (4 * 5 // 2 + 12 * 4))
        assert saved == {"nanochat": 2 * per_key * 16 * (16 - 4), "exact": exact_saving}.get(name, 0)


def test_a_padded_vocabulary_widens_the_head_for_megatron_alone():
    shape = dense_decoder(layers=1, width=8, heads=2, ffn=16, vocabulary=50)
    padded, batch = replace(shape, padded_vocabulary=128), Batch(1, 4)
    wider = {
        name: known(training_flops(name, padded, batch)) - known(training_flops(name, shape, batch)) for name in NAMES
    }
    assert {name for name, more in wider.items() if more} == {"megatron", "megatron_full"}
    assert wider["megatron"] == 6 * 4 * 8 * (128 - 50)


def no_attention():
    return ModelShape((Matmul("recurrent.input", 4, 16),), 64, 64, 0, 4, 1)


@pytest.mark.parametrize("name", NAMES)
def test_a_model_without_attention_has_only_the_counts_that_do_not_need_any(name):
    flops = training_flops(name, no_attention(), Batch(2, 5))
    if name in ("hf", "exact"):
        assert flops == 6 * 10 * 64
    else:
        assert flops == Absent("no attention in this model")
        assert explain(name, no_attention(), Batch(2, 5)) == flops
        assert flops_per_token(name, no_attention(), Batch(2, 5)) == flops


@pytest.mark.parametrize("name", ["megatron", "megatron_full", "chinchilla"])
def test_a_model_without_a_vocabulary_has_no_count_that_needs_one(name):
    shape = ModelShape((Matmul("mlp.up", 4, 16), AttentionCore(4, 4, 1)), 64, 64, 0, 4, 1)
    assert training_flops(name, shape, Batch(2, 5)) == Absent("no vocabulary in this model")


def test_unknown_heads_leave_out_only_the_softmax_count():
    shape = ModelShape((Lookup("token", 9, 4), AttentionCore(4, 4, heads=None)), 36, 36, 0, 4, 1)
    absent = {name for name, flops in all_training_flops(shape, Batch(2, 5)).items() if isinstance(flops, Absent)}
    assert absent == {"chinchilla"}


def test_a_gap_in_the_shape_leaves_the_count_of_parameters():
    shape = replace(dense_decoder(layers=1, width=8, heads=2, ffn=16, vocabulary=50), gap="the heads are hidden")
    counts = all_training_flops(shape, Batch(1, 4))
    assert counts["hf"]
    assert {str(flops) for name, flops in counts.items() if name != "hf"} == {"n/a: the heads are hidden"}


def test_unknown_parameters_are_absent_where_they_are_needed():
    why = Absent("not counted")
    shape = replace(dense_decoder(layers=1, width=8, heads=2, ffn=16, vocabulary=50), parameters=why)
    counts = all_training_flops(shape, Batch(1, 4))
    assert {name for name, flops in counts.items() if flops == why} == {
        "hf",
        "torchtitan",
        "nanogpt",
        "palm",
        "all_params",
    }


def test_a_name_that_is_no_convention_is_refused():
    with pytest.raises(KeyError):
        training_flops("guess", no_attention(), Batch(1, 1))
