"""`tm plan`: time, GPU-hours and memory of a run, and what fits in the hours there are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from trainmeter_core import plan as rules
from trainmeter_core.cli import plan

LLAMA = str(Path(__file__).parents[1] / "flops" / "configs" / "llama-3-8b.json")
PALM = (
    *("--params", "540.35B", "--layers", "118", "--width", "18432", "--heads", "48", "--head-dim", "256"),
    *("--kv-heads", "1", "--vocab", "256000", "--ffn", "73728", "--tied", "--seq-len", "2048"),
)


def run(*words):
    return CliRunner().invoke(plan.command, list(words))


def told(*words):
    done = run(*words, "--json")
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def test_palm_540b_reaches_its_published_speed_at_its_published_mfu():
    """arXiv 2204.02311: 238.3 k tokens/s on 6144 TPU v4 are 46.2 % by its own convention."""
    found = told(*PALM, "--gpus", "6144xTPU v4", "--hours", "1", "--mfu", "46.2", "--convention", "palm")
    assert found["tokens_per_s"] == pytest.approx(238.3e3, rel=0.002)
    assert found["tokens"] == pytest.approx(238.3e3 * 3600, rel=0.002)


def test_time_and_gpu_hours_follow_from_the_flops():
    found = told("--hf-config", LLAMA, "--seq-len", "8192", "--tokens", "20B", "--gpus", "8xH100-SXM", "--mfu", "50")
    assert found["flops"] == 20e9 * 57_914_449_920
    assert found["hours"] == pytest.approx(found["flops"] / (8 * 989.4e12 * 0.5) / 3600)
    assert found["device_hours"] == 8 * found["hours"]
    assert found["tokens_per_parameter"] == 20e9 / 8_030_261_248
    assert found["mfu_source"] == "given"


def test_the_inverse_gives_the_tokens_back():
    same = ("--hf-config", LLAMA, "--seq-len", "8192", "--gpus", "8xH100-SXM")
    there = told(*same, "--tokens", "20B")
    back = told(*same, "--hours", repr(there["hours"]))
    assert back["tokens"] == pytest.approx(20e9)
    assert there["mfu_pct"] == rules.DEFAULT_MFU
    assert "assumed" in there["mfu_source"]


def test_without_a_model_the_compute_optimal_one_is_told():
    found = told("--gpus", "8xH100-SXM", "--hours", "24")
    assert 6 * found["optimal_parameters"] * found["tokens"] == pytest.approx(found["flops"])
    assert found["tokens"] == pytest.approx(20 * found["optimal_parameters"])


def test_model_states_are_sixteen_bytes_per_parameter():
    """arXiv 1910.02054, section 3.1: a model of 7.5 B needs 120 GB, and 1.9 GB on each of 64 devices."""
    assert sum(rules.model_states(7_500_000_000, 7_500_000_000, 1)) == 120e9
    assert sum(rules.model_states(7_500_000_000, 7_500_000_000, 64)) == 1.875e9


def test_activations_of_gpt_3():
    """arXiv 2205.05198: 5 a s / h is 80 for GPT-3, so that keeping everything is (34 + 80) / 34 of selective."""
    kept = rules.activation_bytes(1, 2048, 12288, 96, 96)
    assert kept["none"] * 34 == kept["selective"] * 114
    assert kept["full"] == 2048 * 12288 * (2 * 96 + 34)


def test_memory_says_what_fits():
    same = ("--hf-config", LLAMA, "--seq-len", "8192", "--tokens", "20B")
    sharded = told(*same, "--gpus", "8xH100-SXM")["memory"]
    whole = told(*same, "--gpus", "8xH100-SXM", "--no-shard")["memory"]
    assert sharded["optimizer_bytes"] == 12 * 8_030_261_248 / 8 == whole["optimizer_bytes"] / 8
    assert sharded["fits"] == {"none": False, "selective": True, "full": True}
    assert whole["fits"] == {"none": False, "selective": False, "full": False}


def test_every_typical_mfu_has_a_source():
    assert all(0 < each.percent < 60 and "arXiv" in each.source for each in rules.TYPICAL_MFU)


def test_a_pipe_gets_plain_columns_and_a_terminal_a_table(monkeypatch):
    words = ("--hf-config", LLAMA, "--seq-len", "8192", "--tokens", "20B", "--gpus", "8xH100-SXM")
    lines = dict(line.split("\t") for line in run(*words).stdout.splitlines())
    assert lines["FLOPs required"] == "1.1583e+21"
    assert lines["MFU"] == "40 % (assumed), torchtitan"
    plan._draw(told(*words))


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--tokens", "1B", "--gpus", "L4"), "which model?"),
        (("--hf-config", LLAMA, "--gpus", "L4"), "give --tokens N, or --hours H"),
        (("--hf-config", LLAMA, "--gpus", "L4", "--tokens", "1B", "--hours", "2"), "give --tokens N, or --hours H"),
        (("--hf-config", LLAMA, "--gpus", "H200", "--tokens", "1B"), "h200-nvl, h200-sxm"),
        (("--hf-config", LLAMA, "--gpus", "L4", "--tokens", "soon"), "'soon' is not a number"),
        (("--hf-config", LLAMA, "--gpus", "L4", "--tokens", "0"), "greater than 0"),
        (("--hf-config", "nowhere", "--gpus", "L4", "--tokens", "1B"), "nowhere"),
    ],
)
def test_what_cannot_be_planned_costs_one_line(words, line):
    done = run(*words)
    assert done.exit_code == 2
    assert line in done.stderr


@pytest.mark.parametrize(("name", "words"), [("t5-base", ("--seq-len", "512")), ("whisper-small", ())])
def test_an_encoder_decoder_is_planned_by_its_exact_count(name, words):
    """The headline has one stream of positions; the refusal says what to ask for instead."""
    same = ("--hf-config", str(Path(LLAMA).with_name(f"{name}.json")), *words, "--tokens", "1B", "--gpus", "8xH100-SXM")
    assert run(*same).stderr.rstrip().endswith("; give --convention exact and --target-len")
    assert "; give --convention exact\n" in run(*same, "--target-len", "128").stderr
    found = told(*same, "--target-len", "128", "--convention", "exact")
    assert found["hours"] > 0


@pytest.mark.parametrize("path", sorted(Path(LLAMA).parent.glob("*.json")), ids=lambda path: path.stem)
def test_every_published_config_is_planned_and_back(path):
    same = (
        "--hf-config",
        str(path),
        "--seq-len",
        "512",
        "--target-len",
        "64",
        "--gpus",
        "64xH200-SXM",
        "--convention",
        "exact",
    )
    there = told(*same, "--tokens", "20B")
    assert told(*same, "--hours", repr(there["hours"]))["tokens"] == pytest.approx(20e9, rel=1e-6)
    assert there["device_hours"] == pytest.approx(64 * there["hours"])
