"""Closed forms of other tools: equal to one of our conventions, or off by a term that is named here."""

from __future__ import annotations

import json
from typing import ClassVar

import pytest

from tests.known import known

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.flops.differential.originals import original  # noqa: E402 - after the skips
from tests.flops.differential.tiny_models import CASES, B, T, model_of  # noqa: E402 - after the skips
from tests.flops.published import config_of, shape_from_config  # noqa: E402 - after the skips
from trainmeter_core.flops import explain, flops_per_token, training_flops  # noqa: E402
from trainmeter_core.inside.describe import describe  # noqa: E402
from trainmeter_core.model_shape import Batch  # noqa: E402
from trainmeter_core.shape_from import shape_of  # noqa: E402

BATCH = Batch(B, T)


def tiny(name):
    model = model_of(CASES[name])
    shape, _source = known(shape_of(json.loads(json.dumps(describe(model)))))
    return model, shape


def router(shape):
    """6 d E per token: Megatron leaves the router out and most others do not."""
    return 6 * sum(m.weights for m in shape.matmuls if m.role == "router.weight")


class TestVerl:
    """verl = megatron + the input table as a matmul (6 V d) + the router, over the real length of each sequence."""

    DENSE = ("llama", "llama head_dim", "qwen2", "qwen3", "mistral", "seed_oss")

    @pytest.mark.parametrize("name", [*DENSE, "qwen3_moe", "deepseek_v3", "deepseek_v3 plain q"])
    def test_padded_sequences(self, name, same):
        verl = original("verl.utils.flops_counter")
        model, shape = tiny(name)
        if name == "qwen3_moe":  # the original takes every layer for a mixture
            case = CASES[name]._replace(numbers={**CASES[name].numbers, "mlp_only_layers": []})
            model = model_of(case)
            shape, _source = known(shape_of(describe(model)))
        lengths = [T, T - 5]
        batch = Batch(B, T, documents=tuple(lengths))
        own = round(verl.ESTIMATE_FUNC[model.config.model_type](model.config, sum(lengths), lengths, 1.0) * 1e12)
        table = 6 * shape.token_lookup_parameters
        norms = sum(t.flops for t in known(explain("megatron", shape, batch)) if t.term.startswith("norms"))
        ours = known(training_flops("megatron", shape, batch)) - norms + sum(lengths) * (table + router(shape))
        same(name, "verl", ours, own)


class TestNemoAutoModel:
    """NeMo AutoModel's families = megatron; its gpt-oss = exact without the router."""

    FORMULAS: ClassVar = {
        "llama": "llama3_flops",
        "mistral": "llama3_flops",
        "mixtral": "mixtral_flops",
        "qwen3": "qwen3_flops",
    }

    @pytest.mark.parametrize("name", FORMULAS)
    def test_a_tiny_model(self, name, same):
        nemo = self.formulas()
        model, shape = tiny(name)
        own = getattr(nemo, self.FORMULAS[name])(model.config, gbs=B, seq_len=T)
        same(name, "NeMo AutoModel", training_flops("megatron", shape, BATCH), round(own))

    @pytest.mark.parametrize("name", ["llama-2-7b", "llama-3-8b", "mixtral-8x7b", "qwen3-8b", "qwen3-30b-a3b"])
    def test_a_published_config(self, name, same):
        nemo = self.formulas()
        numbers = config_of(name)
        config = transformers.AutoConfig.for_model(numbers.pop("model_type"), **numbers)
        formula = {"llama": "llama3", "mixtral": "mixtral", "qwen3": "qwen3"}[name.split("-")[0]]
        own = getattr(nemo, f"{formula}_flops")(config, gbs=1, seq_len=4096)
        ours = known(training_flops("megatron", shape_from_config(name), Batch(1, 4096)))
        assert abs(own - ours) < 1e-12 * ours  # the original multiplies floats
        same(name, "NeMo AutoModel", ours, round(own / 4096) * 4096)

    def test_gpt_oss_has_the_exact_window(self, same):
        nemo = self.formulas()
        config = transformers.AutoConfig.for_model(
            "gpt_oss", **{k: v for k, v in config_of("gpt-oss-20b").items() if k != "model_type"}
        )
        shape = shape_from_config("gpt-oss-20b")
        own = nemo.gpt_oss_flops(config, gbs=1, seq_len=4096)
        same(
            "gpt-oss-20b",
            "NeMo AutoModel",
            training_flops("exact", shape, Batch(1, 4096)) - 4096 * router(shape),
            round(own),
        )

    @staticmethod
    def formulas():
        return original("nemo_automodel.components.utils.flops_utils")


class TestTrl:
    """TRL = nanochat without windows: matmul weights with head and router, all of the attention."""

    @pytest.mark.parametrize("name", ["llama", "llama head_dim", "qwen2", "qwen3", "qwen3_moe"])
    def test_a_tiny_model(self, name, same):
        trl = original("trl.trainer.utils")
        case = CASES[name]._replace(
            numbers={**CASES[name].numbers, **({"mlp_only_layers": []} if "moe" in name else {})}
        )
        model = model_of(case)
        shape, _source = known(shape_of(describe(model)))
        own = trl.compute_flops_per_token(model.config, T)
        same(name, "TRL", flops_per_token("nanochat", shape, BATCH), own)


class TestLitgpt:
    """litgpt = all_params with the attention five times instead of three: it is in both of its two calls."""

    @pytest.mark.parametrize("name", ["pythia-14m", "Llama-3.2-1B"])
    def test_a_model_of_its_own(self, name, same):
        utils = original("litgpt.utils")
        from litgpt import GPT, Config

        with torch.device("meta"):
            model = GPT(Config.from_name(name))
        model.max_seq_length = 64
        shape, source = known(shape_of(json.loads(json.dumps(describe(model)))))
        assert source == "gpt_config"
        own = utils.estimate_flops(model, training=True)
        config = model.config
        twice_more = 2 * 4 * config.n_layer * config.n_embd * 64 * 64
        same(f"litgpt {name}", "litgpt", training_flops("all_params", shape, Batch(1, 64)) + twice_more, own)


class TestDeepSpeed:
    """DeepSpeed's profiler counts a forward pass: linear layers and convolutions as a third of exact."""

    def test_linear_layers(self, same):
        profiler = original("deepspeed.profiling.flops_profiler")
        layers = [torch.nn.Linear(16, 32, bias=False), torch.nn.Linear(32, 8, bias=False)]
        model = torch.nn.Sequential(torch.nn.Embedding(50, 16), *layers)
        flops, _macs, _parameters = profiler.get_model_profile(
            model, args=[torch.ones((B, T), dtype=torch.long)], print_profile=False, as_string=False, warm_up=0
        )
        shape, _source = known(shape_of(describe(model)))
        same("linear layers", "DeepSpeed", known(training_flops("exact", shape, BATCH)) // 3, int(flops))
