"""Whole runs under `tm` against a real server: the plain script, Lightning, transformers, unmodified."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import mlflow
from tests.mlflow.mlflow_reading import artifacts, fresh_run, history, of_user
from trainmeter_mlflow import spool

TM = [sys.executable, "-m", "trainmeter_core", "--peak-tflops", "0.05"]

SHARED = Path(__file__).parents[1] / "e2e" / "programs"

MODEL = f"""
    import os, sys
    sys.path.insert(0, {str(SHARED)!r})
    import torch
    from tiny import GPT, config, tokens
    torch.manual_seed(0)
    rows = tokens(64, 16)
"""

PLAIN = """
    import mlflow
    mlflow.set_experiment(os.environ["EXPERIMENT"])
    model = GPT(config())
    optimizer = torch.optim.AdamW(model.parameters())
    with mlflow.start_run():
        mlflow.log_params({"lr": 1e-3, "layers": 2})
        mlflow.set_tag("team", "one")
        for step in range(30):
            loss = model(rows[:4], rows[:4])[1]
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            mlflow.log_metric("loss", loss.item(), step=step)
"""

_MODULE = """
    import lightning
    from lightning.pytorch.loggers import MLFlowLogger
    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = GPT(config())
        def training_step(self, batch, at):
            loss = self.model(batch, batch)[1]
            self.log("loss", loss)
            return loss
        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters())
    def fit(logger):
        trainer = lightning.Trainer(max_steps=30, log_every_n_steps=1, logger=logger, accelerator="cpu",
            enable_progress_bar=False, enable_checkpointing=False, enable_model_summary=False)
        trainer.fit(Module(), torch.utils.data.DataLoader(rows, batch_size=4))
"""

LIGHTNING = (
    _MODULE
    + """
    fit(MLFlowLogger(os.environ["EXPERIMENT"], tracking_uri=os.environ["MLFLOW_TRACKING_URI"]))
"""
)

AUTOLOG = (
    _MODULE
    + """
    import mlflow
    mlflow.set_experiment(os.environ["EXPERIMENT"])
    mlflow.pytorch.autolog(log_every_n_step=1, log_models=False)
    fit(False)
"""
)

TRANSFORMERS = """
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
    import mlflow
    mlflow.transformers.autolog()
    os.environ["MLFLOW_EXPERIMENT_NAME"] = os.environ["EXPERIMENT"]
    model = GPT2LMHeadModel(GPT2Config(vocab_size=61, n_positions=16, n_embd=16, n_layer=2, n_head=2))
    args = TrainingArguments(os.environ["OUT"], max_steps=30, per_device_train_batch_size=4, logging_steps=1,
        report_to="mlflow", use_cpu=True, save_strategy="no", disable_tqdm=True)
    Trainer(model, args, train_dataset=[{"input_ids": row, "labels": row} for row in rows]).train()
"""

PROGRAMS = {"plain": PLAIN, "lightning": LIGHTNING, "autolog": AUTOLOG, "transformers": TRANSFORMERS}


def run(name, server, tmp_path, command, kind="tm", **env):
    """Run a program in a folder and an experiment of its own; what it wrote to stderr, a client, and its one run.

    Without a server it has the store that MLflow makes in the folder.
    """
    script = tmp_path / f"train_{name}.py"
    script.write_text(textwrap.dedent(MODEL + PROGRAMS[name]))
    experiment = f"{tmp_path.parent.name}-{tmp_path.name}-{kind}"
    env = {
        # MLflow leaves the address of the last test's server in the environment of this process.
        **{name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"},
        **({"MLFLOW_TRACKING_URI": server} if server else {}),
        "EXPERIMENT": experiment,
        "TRAINMETER_HOME": str(tmp_path / "home"),
        "OUT": str(tmp_path / "out"),
        "OMP_NUM_THREADS": "1",
        **env,
    }
    folder = tmp_path / kind
    folder.mkdir()
    ended = subprocess.run([*command, str(script)], env=env, cwd=folder, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr
    client = mlflow.MlflowClient(server or f"sqlite:///{folder}/mlflow.db")
    (only,) = client.search_runs([client.get_experiment_by_name(experiment).experiment_id])
    return ended.stderr, client, only.info.run_id


def with_and_without_tm(name, server, tmp_path, *options, **env):
    """Run a program under tm and bare, side by side; what it wrote under tm, and client and run of both.

    A server with a file for a database may refuse rows of MLflow's own asynchronous calls, with tm or without; such a pair
    says nothing and is run once more.
    """
    for folder in (tmp_path / "first", tmp_path / "second"):
        folder.mkdir()
        with ThreadPoolExecutor() as pool:
            without = pool.submit(run, name, server, folder, [sys.executable], "bare", **env)
            told, client, run_id = run(name, server, folder, [*TM, *options], **env)
            told_bare, *bare = without.result()
        if "Failed to log run data" not in told + told_bare:
            break
    if "`tm publish`" in told:  # on a machine so slow that five seconds at the end were not enough
        publish(folder)
    return told, (client, run_id), bare


def publish(tmp_path):
    """`tm publish`; what it said."""
    env = {**os.environ, "TRAINMETER_HOME": str(tmp_path / "home")}
    sent = subprocess.run([*TM[:3], "publish"], env=env, capture_output=True, text=True, timeout=600)
    assert sent.returncode == 0, sent.stdout + sent.stderr
    return sent.stdout


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_users_script_as_it_is_gets_our_series_in_its_own_run(name, server, tmp_path):
    """Golden: metrics, params, tags and status as without tm."""
    told, (client, run_id), bare = with_and_without_tm(name, server, tmp_path)
    shown = client.get_run(run_id)
    assert len(history(client, run_id, "loss")) >= 30
    assert shown.data.tags["trainmeter.step"] == "30"
    assert shown.data.tags["trainmeter.tokens"] == str(30 * 4 * 16)
    assert float(shown.data.tags["trainmeter.mfu_pct"]) > 0
    assert history(client, run_id, "trainmeter/step")[-1][1] == 30
    assert history(client, run_id, "trainmeter/tokens")[-1][1] == 30 * 4 * 16
    assert "trainmeter/panel.html" in artifacts(server, run_id)
    assert f"/runs/{run_id}" in told
    assert "viewStateShareKey=trainmeter" in told
    assert "trainmeter itself failed" not in told
    assert shown.info.status == "FINISHED"
    assert of_user(client, run_id) == of_user(*bare)
    assert not any(key.startswith("trainmeter") for key in client.get_run(bare[1]).data.metrics)


def test_mlflows_own_system_metrics_stay_and_ours_stand_beside_them_where_asked_for(tmp_path):
    """In the store that a script has by default, a database in its folder."""
    env = {"MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING": "true", "MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL": "0.1"}
    told, (client, run_id), bare = with_and_without_tm("plain", "", tmp_path, "--mlflow-system-metrics", **env)
    assert f"mlflow ui --backend-store-uri sqlite:///{tmp_path}/first/tm/mlflow.db, in it #/experiments/" in told
    assert f"/runs/{run_id}\n" in told
    assert of_user(client, run_id) == of_user(*bare)
    by_mlflow = {name for name in bare[0].get_run(bare[1]).data.metrics if name.startswith("system/")}
    under_tm = {name for name in client.get_run(run_id).data.metrics if name.startswith("system/")}
    ours = {name for name in under_tm if name.startswith("system/trainmeter/")}
    assert "system/cpu_utilization_percentage" in by_mlflow
    assert under_tm - ours == by_mlflow
    assert "system/trainmeter/mfu_pct" in ours
    steps = [step for step, _ in history(client, run_id, "system/cpu_utilization_percentage")]
    assert steps == list(range(len(steps)))  # its monitor counts on as if ours were not there


def test_calls_that_hold_the_training_up_are_named_at_the_end(proxy, tmp_path):
    """A server that takes 200 ms for each call: more than 5 % of this run goes there."""
    proxy.delay_s = 0.2
    told, _, _ = run("plain", proxy.uri, tmp_path, TM)
    assert "MLflow's synchronous log_metric took " in told
    assert "% of the run: pass synchronous=False, or log less often" in told


def test_what_a_server_would_not_take_waits_for_tm_publish(server, tmp_path, proxy):
    """Only what is ours is refused here: MLflow itself would repeat the user's own calls for minutes."""
    proxy.status, proxy.only_with = 503, b"trainmeter"
    told, _, run_id = run("plain", proxy.uri, tmp_path, TM)
    client = mlflow.MlflowClient(server)
    assert "a tracker did not answer: `tm publish`" in told
    assert not history(client, run_id, "trainmeter/step")
    proxy.status = 0
    assert f"rows sent to run {run_id} at {proxy.uri}" in publish(tmp_path)
    assert history(client, run_id, "trainmeter/step")[-1][1] == 30
    assert "trainmeter/panel.html" in artifacts(server, run_id)
    assert publish(tmp_path) == "nothing waits to be sent\n"


def test_the_next_run_under_tm_sends_what_waits_without_waiting_for_it(server, tmp_path):
    client = mlflow.MlflowClient(server)
    run_id = fresh_run(client, "next")
    waiting = tmp_path / "home" / "runs" / "20260101T000000Z-train-aaaaaa"
    waiting.mkdir(parents=True)
    (waiting / "run.json").write_text("{}")
    spool.append(str(waiting), [spool.Parcel(server, run_id, 7, 7, {"trainmeter/a": 1.0}, False)])
    env = {**os.environ, "TRAINMETER_HOME": str(tmp_path / "home")}
    subprocess.run([*TM[:3], sys.executable, "-c", "pass"], env=env, check=True, timeout=600, capture_output=True)
    end = time.monotonic() + 300
    while (waiting / spool.FILE).exists():
        assert time.monotonic() < end, "it was never sent"
        time.sleep(0.1)
    assert history(client, run_id, "trainmeter/a") == [(7, 1.0)]
