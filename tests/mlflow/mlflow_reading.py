"""Reads runs with MLflow's own client, so that what we wrote is judged by another's code than ours."""

from __future__ import annotations

import mlflow

# What transformers takes from the clock: two runs never have the same.
_CLOCK = ("train_runtime", "train_samples_per_second", "train_steps_per_second")


def history(client, run_id, key):
    """What a run has under one name, as (step, value), in the order of steps."""
    return sorted((m.step, "nan" if m.value != m.value else m.value) for m in client.get_metric_history(run_id, key))


def points(client, run_id, key):
    return sorted((each.step, each.timestamp, each.value) for each in client.get_metric_history(run_id, key))


def of_user(client, run_id):
    """Everything that the user logged to a run: metric histories without the clock, params, tags, status.

    A value that was logged twice to a step counts once: the store keeps one of them where both have the same millisecond.
    """
    run = client.get_run(run_id)
    mine = [key for key in run.data.metrics if not key.startswith(("trainmeter/", "system/", *_CLOCK))]
    return {
        "metrics": {key: sorted(set(history(client, run_id, key))) for key in mine},
        "params": run.data.params,
        "tags": {
            key: value
            for key, value in run.data.tags.items()
            if not key.startswith("trainmeter.") and key not in ("mlflow.runName", "mlflow.note.content")
        },
        "status": run.info.status,
    }


def fresh_run(client, name="default"):
    """A run of its own in an experiment of its own."""
    found = client.get_experiment_by_name(name)
    experiment = found.experiment_id if found else client.create_experiment(name)
    return client.create_run(experiment).info.run_id


def artifact(client, run_id, path, tmp_path):
    with open(client.download_artifacts(run_id, path, str(tmp_path))) as file:
        return file.read()


def artifacts(uri, run_id, folder="trainmeter"):
    return sorted(each.path for each in mlflow.MlflowClient(uri).list_artifacts(run_id, folder))
