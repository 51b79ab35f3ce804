"""The passport's FLOPs are the conventions' own, over every batch of the run."""

from __future__ import annotations

import pytest

from tests.known import known
from trainmeter_core.flops import CONVENTIONS, HEADLINE, all_training_flops
from trainmeter_core.model_shape import Batch
from trainmeter_core.passport import derive
from trainmeter_core.passport.formulas import formulas_for
from trainmeter_core.readings import Absent
from trainmeter_core.shape_from import shape_of

GPT = {"n_layer": 3, "n_head": 4, "n_embd": 64, "block_size": 64, "vocab_size": 101, "bias": True}
LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 100, "vocab_size": 77, "tie_word_embeddings": False,
    "max_position_embeddings": 128,
}  # fmt: skip


def described(config):
    name = config.get("architectures", ["Model"])[0]
    return {"class": name, "module": "m", "config": config, "config_class": None, "params": None, "modules": []}


@pytest.mark.parametrize("config", [GPT, LLAMA], ids=["gpt", "llama"])
@pytest.mark.parametrize("length", [1, 7, 33])
def test_every_convention_is_linear_in_sequences_of_equal_length(config, length):
    """What lets a record merge batches of equal lengths."""
    shape, _ = known(shape_of(described(config)))
    one, five = (all_training_flops(shape, Batch(many, length)) for many in (1, 5))
    for name in CONVENTIONS:
        flops = one[name]
        assert five[name] == (flops if isinstance(flops, Absent) else 5 * flops)


def test_flops_of_a_run_are_summed_over_its_batches():
    formulas = known(formulas_for(described(GPT)))
    shape, source = known(shape_of(described(GPT)))
    sums = formulas.of_batches([[4, 32, 0, 10], [2, 32, 0, 1], [4, 64, 0, 3], [0, 64, 0, 9]])
    expected = dict.fromkeys(CONVENTIONS, 0)
    for sequences, length, calls in [(4, 32, 10), (2, 32, 1), (4, 64, 3)]:
        for name, flops in all_training_flops(shape, Batch(sequences, length)).items():
            expected[name] += known(flops) * calls
    assert sums == expected
    assert (formulas.shape_source, formulas.headline, derive.HEADLINE) == (source, HEADLINE, HEADLINE)


@pytest.mark.parametrize("description", [{}, {"class": 3}, {"modules": [{"kind": "linear"}]}, {"config": [1]}])
def test_a_description_that_cannot_be_read_gives_a_reason(description):
    assert isinstance(formulas_for(description), Absent)
