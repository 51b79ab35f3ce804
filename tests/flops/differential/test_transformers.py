"""hf equals transformers' own Trainer.floating_point_ops, on tiny models and on published configs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

sys.path.insert(0, str(Path(__file__).parents[1]))
from published import CONFIGS, config_of  # noqa: E402 - the path above
from tiny_models import CASES, TARGET_LEN, B, Case, T, inputs_of, model_of  # noqa: E402 - after the skips

from trainmeter_core.flops import all_training_flops, training_flops  # noqa: E402
from trainmeter_core.inside.describe import describe  # noqa: E402
from trainmeter_core.model_shape import Batch  # noqa: E402
from trainmeter_core.readings import Absent  # noqa: E402
from trainmeter_core.shape_from import shape_of  # noqa: E402

HEADS = {
    "bert": ("MaskedLM", "tokens"),
    "t5": ("Seq2SeqLM", "pairs"),
    "whisper": ("SpeechSeq2Seq", "sound"),
    "vit": ("ImageClassification", "image"),
}
NOT_FROM_CONFIG = {"falcon"}  # the attention's norms depend on which release of the family it is


def batch_of(case):
    return {
        "tokens": Batch(B, T),
        "pairs": Batch(B, T, TARGET_LEN),
        "sound": Batch(B, 1, TARGET_LEN),
        "image": Batch(B, 1),
    }[case.inputs]


def own_count(model, case):
    """The Trainer's own method, on a stand-in for the trainer."""
    trainer = SimpleNamespace(model=model)
    return transformers.Trainer.floating_point_ops(trainer, inputs_of(case, model.config))


def shape_of_model(model):
    shape, source = shape_of(json.loads(json.dumps(describe(model))))
    assert source == "hf_config"
    return shape


@pytest.mark.parametrize("name", CASES)
def test_a_tiny_model(name, same):
    case = CASES[name]
    model = model_of(case)
    shape = shape_of_model(model)
    same(name, "transformers parameters", shape.parameters, model.num_parameters())
    same(name, "transformers total_flos", training_flops("hf", shape, batch_of(case)), own_count(model, case))


@pytest.mark.parametrize("name", [name for name in CASES if name not in NOT_FROM_CONFIG])
def test_the_config_alone_gives_every_count_of_the_model(name):
    case = CASES[name]
    model = model_of(case)
    description = {"class": type(model).__name__, "config": model.config.to_dict(), "modules": None}
    from_config, _source = shape_of(description)
    from_model, batch = shape_of_model(model), batch_of(case)
    assert all_training_flops(from_config, batch) == all_training_flops(from_model, batch)
    assert from_config.parameters == from_model.parameters


@pytest.mark.parametrize("name", CONFIGS)
def test_a_published_config(name, same):
    numbers = config_of(name)
    head, inputs = HEADS.get(numbers["model_type"], ("CausalLM", "tokens"))
    case = Case(numbers.pop("model_type"), {k: v for k, v in numbers.items() if k != "architectures"}, head, inputs)
    model = model_of(case)
    description = {"class": type(model).__name__, "config": config_of(name), "modules": None}
    from_config, _source = shape_of(description)
    batch = batch_of(case)
    same(name, "transformers parameters", from_config.parameters, model.num_parameters())
    same(name, "transformers total_flos", training_flops("hf", from_config, batch), own_count(model, case))
    from_model = shape_of_model(model)
    assert all_training_flops(from_config, batch) == all_training_flops(from_model, batch)


@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen3_moe"])
def test_every_convention_applies_to_a_decoder(name):
    counts = all_training_flops(shape_of_model(model_of(CASES[name])), Batch(B, T))
    assert not [why for why in counts.values() if isinstance(why, Absent)]
