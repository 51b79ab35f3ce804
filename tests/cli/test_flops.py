"""`tm flops`: every convention of a model, by its config or by a few numbers."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from trainmeter_core.cli import flops, plan
from trainmeter_core.cli.main import main
from trainmeter_core.flops import CONVENTIONS

CONFIGS = Path(__file__).parents[1] / "flops" / "configs"
LLAMA = str(CONFIGS / "llama-3-8b.json")
# GPT-2 style, 1.04 billion parameters: the five numbers are the project's first golden values, docs/flops.md.
GPT = {"model_type": "gpt2", "n_embd": 2048, "n_layer": 18, "n_head": 16, "n_positions": 1024, "vocab_size": 32000}
GPT |= {"tie_word_embeddings": False, "architectures": ["GPT2LMHeadModel"]}
FIVE = {
    "hf": 5_831_933_952,
    "megatron": 6_055_526_400,
    "torchtitan": 6_284_918_784,
    "nanochat": 6_282_018_816,
    "all_params": 6_690_717_696,
}


def run(*words, **options):
    return CliRunner().invoke(flops.command, [str(word) for word in words], **options)


def told(*words, **options):
    done = run(*words, "--json", **options)
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def per_token(table):
    return {row["name"]: row["flops_per_token"] for row in table["conventions"]}


def test_the_five_numbers_of_the_first_model(tmp_path):
    """The sequence length is the config's own."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(GPT))
    for place in (path, tmp_path):
        table = told("--hf-config", place)
        assert table["model"]["parameters"] == 1_039_622_144
        assert {name: per_token(table)[name] for name in FIVE} == FIVE
    assert per_token(told("--hf-config", "-", input=json.dumps(GPT))) == per_token(table)


def test_llama_3_8b_at_8192():
    """megatron as its own function returned it, torchtitan by its formula."""
    table = told("--hf-config", LLAMA, "--seq-len", 8192, "--batch", 2)
    assert per_token(table)["megatron"] == 51_470_401_536
    assert per_token(table)["torchtitan"] == 57_914_449_920
    assert {row["name"]: row["flops"] for row in table["conventions"]}["megatron"] == 2 * 8192 * 51_470_401_536


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.json")), ids=lambda path: path.stem)
def test_every_published_config_has_counts(path):
    table = told("--hf-config", path, "--seq-len", 512, "--target-len", 64)
    assert [row["name"] for row in table["conventions"]] == list(CONVENTIONS)
    assert all((row["flops"] is None) == ("absent" in row) for row in table["conventions"])
    assert per_token(table)["hf"]


def test_a_config_of_another_style(tmp_path):
    path = tmp_path / "c.json"
    path.write_text(
        json.dumps({"dim": 64, "n_layers": 2, "n_heads": 4, "vocab_size": 100, "hidden_dim": 96, "max_seq_len": 32})
    )
    table = told("--config", path)
    assert table["batch"]["seq_len"] == 32
    assert per_token(table)["torchtitan"]


def test_a_decoder_by_a_few_numbers():
    """--params fills the MLP; with --ffn the numbers are all there."""
    table = told(
        "--params", "8.03B", "--layers", 32, "--width", 4096, "--kv-heads", 8, "--vocab", 128256, "--seq-len", 8192
    )
    assert abs(table["model"]["parameters"] - 8_030_261_248) < 1e6
    same = ("--layers", 32, "--width", 4096, "--heads", 32, "--kv-heads", 8, "--vocab", 128256, "--ffn", 14336)
    assert per_token(told(*same, "--seq-len", 8192)) == per_token(told("--hf-config", LLAMA, "--seq-len", 8192))


def test_a_run_and_the_time_it_takes():
    """20 B tokens of Llama-3-8B on eight H100 SXM of 989.4 TFLOP/s at 40 %."""
    words = ("--hf-config", LLAMA, "--seq-len", 8192, "--tokens", "20B", "--gpus", "8xH100-SXM", "--mfu", 40)
    row = told(*words, "--convention", "torchtitan")["conventions"][0]
    assert row["run_flops"] == 20 * 10**9 * 57_914_449_920
    assert row["hours"] == pytest.approx(20e9 * 57_914_449_920 / (8 * 989.4e12 * 0.4) / 3600)


def test_every_line_of_a_count_and_why_two_differ():
    words = ("--hf-config", LLAMA, "--seq-len", 8192, "--explain", "megatron", "--convention", "torchtitan")
    table = told(*words)
    for row in table["conventions"]:
        assert sum(term["flops"] for term in table["terms"][row["name"]]) == row["flops"]
    text = run(*words).stdout
    assert "torchtitan - megatron:" in text
    assert "+52,776,558,133,248  attention core" in text  # the other half of it
    assert set(told("--hf-config", LLAMA, "--explain")["terms"]) == set(CONVENTIONS)


def test_a_pipe_gets_plain_columns():
    lines = run("--hf-config", LLAMA, "--seq-len", 8192).stdout.splitlines()
    assert lines[0] == "convention\tFLOPs per token\tFLOPs per batch"
    assert lines[4].split("\t")[:2] == ["torchtitan", "57,914,449,920"]


def test_a_terminal_gets_a_table(monkeypatch):
    monkeypatch.setattr(flops, "sys", SimpleNamespace(stdout=SimpleNamespace(isatty=lambda: True)))
    drawn: list[dict] = []
    monkeypatch.setattr(flops, "_draw", drawn.append)
    run("--hf-config", LLAMA)
    assert drawn[0]["model"]["family"] == "llama"
    monkeypatch.undo()
    flops._draw({**drawn[0], "terms": {"hf": [{"term": "a", "formula": "b", "flops": 1}]}})


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ((), "which model?"),
        (("--hf-config", "nowhere.json"), "nowhere.json: No such file"),
        (("--hf-config", __file__), "is not a JSON config"),
        (("--hf-config", "-"), "is not a JSON config"),
        (("--hf-config", LLAMA, "--layers", "3"), "not both"),
        (("--layers", "2", "--width", "64"), "which model?"),
        (("--params", "10", "--layers", "2", "--width", "64", "--seq-len", "8"), "too few"),
        (("--layers", "2", "--width", "64", "--ffn", "64"), "give --seq-len"),
        (("--layers", "2", "--width", "64", "--ffn", "64", "--heads", "3"), "not a multiple of 3 heads"),
        (("--layers", "2", "--width", "64", "--ffn", "64", "--params", "1B"), "these numbers make"),
        (("--hf-config", LLAMA, "--seq-len", "many"), "'many' is not a number"),
        (("--hf-config", LLAMA, "--explain", "mine"), "no convention 'mine'"),
        (("--hf-config", LLAMA, "--gpus", "8xH100"), "h100-nvl, h100-pcie, h100-sxm"),
        (("--hf-config", LLAMA, "--gpus", "8xQuantum"), "'Quantum' is not in the table"),
        (("--hf-config", LLAMA, "--gpus", "0xL4"), "at least one GPU"),
        (("--hf-config", LLAMA, "--gpus", "T4"), "no dense bf16 peak"),
    ],
)
def test_what_cannot_be_answered_costs_one_line(words, line, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with pytest.raises(SystemExit) as end:
        main(["flops", *words])
    assert end.value.code == 2
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1
    assert line in told[0]


@pytest.mark.parametrize(
    "config",
    [
        *("", "[]", "{}", "null", "3", '"x"', "\0", "[" * 100_000, "<!DOCTYPE html><html></html>"),
        *('{"model_type": "novel"}', '{"model_type": "llama"}', '{"model_type": "gpt2", "n_embd": "x"}'),
    ],
)
def test_a_config_that_is_none_costs_one_line(config, tmp_path):
    """Also a page of an error that was saved as config.json."""
    path = tmp_path / "config.json"
    path.write_text(config)
    assert "config.json" in refused("--hf-config", path, "--seq-len", 8)


def refused(*words, **options):
    """The one line that a refusal is, behind the usage."""
    done = run(*words, **options)
    assert done.exit_code == 2, done.output
    [line] = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert done.stderr.rstrip().endswith(line)
    assert len(line) < 200
    return line


WRONG = {"text": "x", "yes": True, "half": 1.5, "negative": -1, "none of it": 0, "huge": 10**30, "beyond": 10**400}
WRONG |= {"not a number": float("nan"), "infinite": float("inf"), "an object": {"a": 1}}


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("key", ["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"])
def test_a_number_that_no_model_has_is_named(key, kind):
    config = {**json.loads(Path(LLAMA).read_text()), key: WRONG[kind]}
    for command, words in ((flops.command, ()), (plan.command, ("--tokens", "1B", "--gpus", "8xH100-SXM"))):
        done = CliRunner().invoke(command, ["--hf-config", "-", "--seq-len", "8", *words], input=json.dumps(config))
        assert done.exit_code == 2, done.output
        assert done.stderr.splitlines()[-1].startswith(f"Error: -: {key} is ")


@pytest.mark.parametrize("path", [CONFIGS / f"{name}.json" for name in ("gpt-oss-20b", "whisper-small", "mamba-130m")])
def test_whatever_a_config_holds_it_is_counted_or_refused(path):
    """Each number once wrong or missing: never a traceback, never a count that is not positive."""
    whole = json.loads(path.read_text())
    for key in whole:
        values: tuple = (None, "x", -7, 0, 1.5, [1], {}, 10**30)
        for value in values:
            done = run("--hf-config", "-", "--seq-len", 8, "--json", input=json.dumps({**whole, key: value}))
            assert done.exit_code in (0, 2), (key, value, done.exception)
            if not done.exit_code:
                counts = [row["flops"] for row in json.loads(done.stdout)["conventions"]]
                assert all(flops is None or (isinstance(flops, int) and flops > 0) for flops in counts), (key, value)


def test_a_config_saved_with_a_byte_order_mark_is_read():
    assert run("--hf-config", "-", input="\ufeff" + Path(LLAMA).read_text()).exit_code == 0
