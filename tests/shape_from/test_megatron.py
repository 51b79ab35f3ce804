"""Megatron-Core's GPT, told by its config: against the parameters of its own models, which a CPU can make."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("megatron.core")
PROGRAM = Path(__file__).with_name("megatron_models.py")
EXPERT = 3 * 24 * 32  # gate, up and down of one expert
NOT_TOLD = {
    "latent attention with other norms": "latent attention without the usual norms",
    "several tokens predicted": "layers that predict several tokens",
}


@pytest.fixture(scope="module")
def found():
    run = subprocess.run([sys.executable, "-W", "ignore", PROGRAM], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    lines = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    assert len(lines) == 15
    return {line["case"]: line for line in lines}


def test_every_model_has_the_parameters_that_its_config_tells(found):
    told = {name: line["told"] for name, line in found.items() if name not in NOT_TOLD}
    assert told == {name: line["parameters"] for name, line in found.items() if name not in NOT_TOLD}


def test_what_a_config_does_not_tell_is_named_and_nothing_is_computed(found):
    for name, what in NOT_TOLD.items():
        assert found[name]["told"] == f"n/a: this model has {what}, which its config alone does not tell"


@pytest.mark.parametrize(
    ("name", "layers"),
    [("experts", 4), ("experts in every other layer", 2), ("a dense layer first, a shared expert", 3), ("rotary", 0)],
)
def test_two_of_four_experts_see_a_token(found, name, layers):
    assert found[name]["inactive"] == layers * 2 * EXPERT


def test_a_window_is_the_keys_before_and_the_tokens_own_in_the_layers_that_have_it(found):
    """`window_size` (7, 0): seven keys to the left; every fourth layer sees all."""
    assert found["a window in three layers of four"]["windows"] == [[3, 8], [1, None]]
