"""hf equals transformers' own Trainer.floating_point_ops, on tiny models and on published configs."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from tests.known import known

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.flops.differential.tiny_models import CASES, TARGET_LEN, B, Case, T, inputs_of, model_of  # noqa: E402 - after the skips
from tests.flops.published import CONFIGS, config_of  # noqa: E402 - after the skips
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
    shape, source = known(shape_of(json.loads(json.dumps(describe(model)))))
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
    from_config, _source = known(shape_of(description))
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
    from_config, _source = known(shape_of(description))
    batch = batch_of(case)
    same(name, "transformers parameters", from_config.parameters, model.num_parameters())
    same(name, "transformers total_flos", training_flops("hf", from_config, batch), own_count(model, case))
    from_model = shape_of_model(model)
    assert all_training_flops(from_config, batch) == all_training_flops(from_model, batch)


@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen3_moe"])
def test_every_convention_applies_to_a_decoder(name):
    counts = all_training_flops(shape_of_model(model_of(CASES[name])), Batch(B, T))
    assert not [why for why in counts.values() if isinstance(why, Absent)]


PICTURES = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 32,
    "patch_size": 8,
}


def picture_models():
    """A model of pictures and text, and the same model of text alone."""
    gemma = dict(CASES["gemma3"].numbers)
    llama = transformers.LlamaConfig(**CASES["llama"].numbers)
    with torch.device("meta"):
        both = transformers.Gemma3Config(text_config=gemma, vision_config=PICTURES, mm_tokens_per_image=4)
        yield transformers.Gemma3ForConditionalGeneration(both), transformers.Gemma3ForCausalLM(both.text_config)
        both = transformers.LlavaConfig(text_config=llama, vision_config=transformers.CLIPVisionConfig(**PICTURES))
        yield transformers.LlavaForConditionalGeneration(both), transformers.LlamaForCausalLM(llama)


def test_a_model_of_pictures_and_text_counts_as_its_text_alone():
    """As torchtitan does, which leaves the encoder out; exact needs the pictures and is absent; hf counts all of it."""
    for both, text in picture_models():
        counts, of_text = (all_training_flops(shape_of_model(model), Batch(B, T)) for model in (both, text))
        assert "pictures" in str(counts.pop("exact"))
        assert counts.pop("hf") == 6 * B * T * both.num_parameters(exclude_embeddings=True)
        assert counts == {name: of_text[name] for name in counts}


def test_a_main_input_that_is_not_tokens_is_not_taken_for_them():
    config = transformers.Wav2Vec2Config(
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=1,
        num_attention_heads=2,
        conv_dim=(8,),
        conv_stride=(2,),
        conv_kernel=(3,),
        num_conv_pos_embeddings=4,
        num_conv_pos_embedding_groups=2,
    )
    with torch.device("meta"):
        model = transformers.Wav2Vec2Model(config)
    shape, _source = known(shape_of(describe(model)))
    assert "input_values" in str(training_flops("hf", shape, Batch(B, T)))
