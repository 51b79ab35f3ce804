"""Published model configs, written by hand as data, and what is known of each."""

from __future__ import annotations

import json
from pathlib import Path

from tests.known import known
from trainmeter_core.shape_from import shape_of

CONFIGS = {path.stem: path for path in sorted((Path(__file__).parent / "configs").glob("*.json"))}
# Parameters of the published checkpoints. Mixture and latent models count every expert; DeepSeek-V3 without its
# multi-token-prediction layer and its 14,848 routing biases, which are buffers.
PARAMETERS = {
    "bert-base": 109_514_298,
    "deepseek-v2-lite": 15_706_484_224,
    "deepseek-v3": 671_026_404_352,
    "gemma-2-9b": 9_241_705_984,
    "gemma-3-1b": 999_885_952,
    "gpt-oss-20b": 20_914_757_184,
    "gpt2": 124_439_808,
    "gpt2-xl": 1_557_611_200,
    "llama-2-70b": 68_976_648_192,
    "llama-2-7b": 6_738_415_616,
    "llama-3-8b": 8_030_261_248,
    "llama-3.2-1b": 1_235_814_400,
    "mamba-130m": 129_135_360,
    "mistral-7b-v0.1": 7_241_732_096,
    "mixtral-8x7b": 46_702_792_704,
    "phi-2": 2_779_683_840,
    "phi-3-mini": 3_821_079_552,
    "qwen2-7b": 7_615_616_512,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-4b": 4_022_468_096,
    "qwen3-8b": 8_190_735_360,
    "t5-base": 222_903_552,
    "vit-large-16": 304_326_632,
    "whisper-small": 241_734_912,
}


def config_of(name):
    """The config as a dict."""
    return json.loads(CONFIGS[name].read_text())


def shape_from_config(name):
    """The shape by the config alone, as `tm flops` reads it."""
    config = config_of(name)
    name = (config.get("architectures") or [None])[0]
    shape, source = known(shape_of({"class": name, "config": config, "modules": None}))
    assert source == "hf_config"
    return shape
