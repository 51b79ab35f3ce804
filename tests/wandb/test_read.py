"""A run read from W&B alone: with its passport where trainmeter was there, and without guesses where it was not."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.fakes.wandb import Backend
from tests.known import known
from tests.wandb.conftest import client_environment, run_program, run_tm
from tests.wandb.counting_agent import GPT2
from trainmeter_core.passport.build import build
from trainmeter_core.passport.schema import problems
from trainmeter_core.run_tables import Statistics
from trainmeter_wandb import read
from trainmeter_wandb.reconstruct import record_of
from trainmeter_wandb.seen import SeenRun
from trainmeter_wandb.transaction_log import records

BODY = """
run = wandb.init(project="p", id="here", config={"lr": 0.1})
for step in range(5):
    agent.step()
    run.log({"loss": 1 / (step + 1)})
"""


@pytest.fixture(scope="module")
def offline(tmp_path_factory):
    """The directory of an offline run."""
    directory = tmp_path_factory.mktemp("offline")
    assert run_program(directory, BODY, env={}).code == 0
    (found,) = (directory / "wandb").glob("offline-run-*")
    return found


@pytest.fixture(scope="module")
def synced(offline, tmp_path_factory):
    """The backend after `wandb sync` of the offline run."""
    import subprocess
    import sys

    with Backend() as backend:
        environment = {**client_environment(tmp_path_factory.mktemp("sync")), **backend.environment()}
        command = [sys.executable, "-m", "wandb", "sync", str(offline)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        yield backend
        assert not backend.unknown_ops


def test_offline_then_sync_brings_rows_panels_and_artifact(synced):
    run = synced.only_run()
    assert [row["loss"] for row in run.history if "loss" in row] == [1 / (step + 1) for step in range(5)]
    assert [row["trainmeter/step"] for row in run.history] == [1, 2, 3, 4, 5, 5]
    assert run.history[-1]["trainmeter/passport"]["path"] in run.files
    kinds = [each["given"]["artifactTypeName"] for each in synced.artifacts.values()]
    assert sorted(kinds) == ["run_table", "run_table", "run_table", "trainmeter-passport"]


def test_an_offline_directory_and_its_file_give_the_passport(offline):
    (path,) = offline.glob("*.wandb")
    for ref in (str(offline), str(path)):
        passport = build(known(read.open_run(ref)))
        assert passport["identity"]["run_id"] == "pi31415"
        assert passport["data"]["steps"]["value"] == 6
        assert passport["efficiency"]["mfu_pct"]["value"] > 0


def test_the_file_alone_gives_its_series(offline, tmp_path):
    """Copied away from its panels: counts and losses are there, and what is not is a gap."""
    (path,) = offline.glob("*.wandb")
    alone = shutil.copy(path, tmp_path / "alone.wandb")
    passport = build(known(read.open_run(str(alone))))
    assert passport["data"]["steps"]["value"] == 5
    assert passport["data"]["tokens"]["value"] == 5 * 524289
    assert passport["losses"]["loss"]["best"]["value"]["value"] == 0.2
    assert passport["ends"]["how"] == "finished"
    assert "model.description" in {gap["field"] for gap in passport["gaps"]}


@pytest.mark.parametrize("form", ["wandb:stub/p/here", "{url}/stub/p/runs/here", "{url}/stub/p/runs/here?nw=1"])
def test_tm_passport_reads_a_run_from_the_server(synced, tmp_path, form):
    done = run_tm(tmp_path, ["passport", form.format(url=synced.url)], env=synced.environment())
    assert done.returncode == 0, done.stderr
    assert "6 steps" in done.stdout
    assert "MFU" in done.stdout


def test_a_run_that_is_not_there_is_one_clear_line(synced, tmp_path):
    done = run_tm(tmp_path, ["passport", "wandb:stub/p/nowhere"], env=synced.environment())
    assert done.returncode == 2
    assert "stub/p/nowhere cannot be read" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("ref", ["wandb:only/two", "wandb:"])
def test_half_a_reference_is_refused_and_others_are_left_to_others(ref, tmp_path):
    with pytest.raises(ValueError, match="ENTITY/PROJECT/RUN"):
        read.open_run(ref)
    for other in ("mlflow:abc", str(tmp_path), "https://example.org/#/experiments/1/runs/2", "train.py"):
        assert read.open_run(other) is None


@pytest.mark.parametrize("cut", [0, 3, 7, 2000])
def test_a_torn_file_is_read_as_far_as_it_goes(offline, tmp_path, cut):
    (path,) = offline.glob("*.wandb")
    torn = tmp_path / "torn.wandb"
    torn.write_bytes(path.read_bytes()[: -cut or None])
    found = [record.WhichOneof("record_type") for record in records(str(torn))]
    whole = [record.WhichOneof("record_type") for record in records(str(path))]
    assert found == whole[: len(found)]
    assert (len(found) == len(whole)) == (cut == 0)


def test_a_damaged_record_costs_only_itself(offline, tmp_path):
    (path,) = offline.glob("*.wandb")
    data = bytearray(path.read_bytes())
    at = data.index(b"0.3333")
    data[at] ^= 0xFF
    damaged = tmp_path / "damaged.wandb"
    damaged.write_bytes(data)
    assert len(list(records(str(damaged)))) == len(list(records(str(path)))) - 1


def test_a_file_that_is_none_is_one_clear_line(tmp_path):
    other = tmp_path / "x.wandb"
    other.write_bytes(b"something else")
    with pytest.raises(ValueError, match=r"is not a \.wandb file"):
        read.open_run(str(other))


# --- runs that never saw trainmeter ---------------------------------------------------------------------------------


def foreign(config, rows, **more) -> dict:
    run = SeenRun(run_id="theirs", config=config, **more)
    for place, row in enumerate(rows):
        run.add_row({"_step": place, "_timestamp": 1000.0 + 10 * place, **row})
    return build(record_of(run))


def gaps(passport) -> dict[str, str]:
    return {gap["field"]: gap["reason"] for gap in passport["gaps"]}


NANOGPT = {
    "n_layer": 12, "n_head": 12, "n_embd": 768, "block_size": 1024, "vocab_size": 50304, "bias": False,
    "batch_size": 12, "gradient_accumulation_steps": 40, "dtype": "bfloat16",
}  # fmt: skip


def test_a_nanogpt_run_on_a_known_gpu_gets_tokens_flops_and_mfu():
    """12 x 1024 x 40 tokens a step; peak of the H100 SXM in bf16, dense, from the table."""
    passport = foreign(
        NANOGPT,
        [{"iter": 0, "train/loss": 10.0}, {"iter": 10, "train/loss": 8.0}, {"iter": 20, "train/loss": 7.0}],
        metadata={"gpu_nvidia": [{"name": "NVIDIA H100 80GB HBM3"}]},
    )
    assert passport["data"]["tokens"]["value"] == 20 * 491520
    assert passport["efficiency"]["tokens_per_s"]["value"] == 491520
    assert passport["options"]["peak_tflops"]["value"] == 989.4
    flops_per_token = passport["compute"]["flops_per_token"]["torchtitan"]["value"]
    expected = 100 * flops_per_token * 491520 / (989.4 * 1e12)
    assert passport["efficiency"]["mfu_pct"]["value"] == pytest.approx(expected)
    assert passport["losses"]["train/loss"]["last"]["value"]["value"] == 7.0


def test_a_hugging_face_run_takes_tokens_from_the_series_that_counts_them():
    rows = [{"train/global_step": step, "train/num_input_tokens_seen": 4096 * step} for step in (1, 5, 9)]
    passport = foreign({**GPT2["config"], "architectures": ["GPT2LMHeadModel"], "max_seq_length": 64}, rows)
    assert passport["data"]["tokens"]["value"] == 9 * 4096
    assert passport["efficiency"]["tokens_per_s"]["value"] == 8 * 4096 / 20
    assert passport["efficiency"]["mfu_pct"] is None
    assert passport["hardware"]["gpus"] is None


def test_what_is_not_told_is_a_gap_and_never_a_guess():
    passport = foreign({"lr": 0.1, "batch_size": 4}, [{"loss": 1.0, "global_step": 1}, {"loss": 0.5, "global_step": 2}])
    assert passport["data"]["tokens"] is None
    assert "no series counts tokens" in gaps(passport)["data.tokens"]
    assert "does not describe the model" in gaps(passport)["model.description"]
    assert passport["efficiency"]["mfu_pct"] is None


def test_which_gpus_of_a_node_the_run_used_comes_from_its_processes():
    node = {"gpu_nvidia": [{"name": "NVIDIA A100-SXM4-80GB"}] * 8}
    unknown = foreign({}, [{"global_step": 1}], metadata=node)
    assert unknown["hardware"]["gpus"] is None
    assert "8 GPUs" in gaps(unknown)["hardware.gpus"]
    system = {f"gpu.process.{index}.gpu": Statistics(1, 1.0, 1.0, 1.0) for index in (2, 3)}
    known = foreign({}, [{"global_step": 1}], metadata=node, system=system)
    assert known["hardware"]["devices"]["value"] == 2


def test_profiling_counters_are_reused_and_say_how_they_were_sampled():
    run = SeenRun(run_id="theirs")
    run.add_system({"system.gpu.0.pipeTensorActive": 40.0, "system.gpu.0.powerWatts": 650.0, "_runtime": 1.0})
    run.add_system({"system.gpu.0.pipeTensorActive": 50.0, "system.gpu.0.powerWatts": 700.0})
    gpus = build(record_of(run))["readings"]["gpus"]
    assert gpus["gpu 0 (200 ms samples)"]["tensor_active_pct"]["mean"]["value"] == 45.0


def test_values_that_are_not_finite_are_kept_out_of_counts():
    run = SeenRun(run_id="theirs")
    run.add_row({"_step": 0, "loss": "NaN", "global_step": 1, "table": {"_type": "table-file", "nrows": 3}})
    assert "table.nrows" not in run.series
    assert run.losses["loss"].last.value is None


def test_memory_does_not_grow_with_the_run():
    run = SeenRun(run_id="theirs")
    for step in range(5000):
        run.add_row({"_step": step, "_timestamp": float(step), "loss": 1.0, f"new/{step}": 1.0})
    assert len(run.series) <= 4096


NEVER_SAW_US = """
run = wandb.init(project="p", id="theirs", config={"n_layer": 2, "n_head": 2, "n_embd": 32, "vocab_size": 64,
    "block_size": 16, "batch_size": 4, "model_type": "gpt2"})
for step in range(4):
    run.log({"iter": step + 1, "train/loss": 3.0 - step, "tokens_seen": 64 * (step + 1)})
"""


def test_tm_passport_of_a_run_that_never_saw_us_is_what_its_config_and_history_tell(backend, tmp_path):
    """The same from the server and from the file; the rest is in `gaps`, with its reason."""
    told = {}
    for name, env in {"server": backend.environment(), "file": {}}.items():
        assert run_program(tmp_path, NEVER_SAW_US, env=env, tapped=False).code == 0
        ref = "wandb:stub/p/theirs" if name == "server" else str(next((tmp_path / "wandb").glob("offline-run-*")))
        done = run_tm(tmp_path, ["passport", ref, "--json"], env=env)
        assert done.returncode == 0, done.stderr
        told[name] = json.loads(done.stdout)
    for passport in told.values():
        assert problems(passport) == []
        assert passport["data"]["tokens"]["value"] == 256
        assert passport["data"]["steps"]["value"] == 4
        assert passport["losses"]["train/loss"]["last"]["value"]["value"] == 0
        assert passport["model"]["description"]["config"]["n_embd"] == 32
        assert passport["efficiency"]["mfu_pct"] is None
        reasons = {gap["field"]: gap["reason"] for gap in passport["gaps"]}
        assert "options.peak_tflops" in reasons
        assert "hardware.world_size" in reasons
    same = ("data", "compute", "model", "losses")
    assert {name: told["server"][name] for name in same} == {name: told["file"][name] for name in same}
