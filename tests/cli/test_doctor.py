"""`tm doctor` says what is here, what is missing and what to do; its bundle gives nobody away."""

from __future__ import annotations

import json
import os
import platform
import stat
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.fakes.nvml import fake_nvml
from tests.known import known

SECRET = "hf_" + "Ab3dEf9hIjKl2nOpQr5tUvWx"
PLANTED = {
    "WANDB_API_KEY": "0123456789abcdef0123456789abcdef01234567",
    "HF_TOKEN": SECRET,
    "TRAINMETER_NOTE": f"see https://mallory:pa55w0rd-xyz@tracker.example/?token={SECRET}",
    "MLFLOW_TRACKING_URI": "https://mallory:pa55w0rd-xyz@mlflow.example",
    "MLFLOW_TRACKING_PASSWORD": "pa55w0rd-xyz",
    "UNRELATED_VARIABLE": "unrelated-value-of-nobodys-concern",
    "SLURM_JOB_USER": "mallory",
    "USER": "mallory",
    "LOGNAME": "mallory",
    "VIRTUAL_ENV_NOTE": "",
}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if fake_nvml.compiler() is None:
        pytest.skip("no C compiler to build the fake driver library with")
    return fake_nvml.build(tmp_path_factory.mktemp("nvml"))


def doctor(*options, env, cwd):
    tm = Path(sys.executable).with_name("tm")
    done = subprocess.run(
        [str(tm), "doctor", "--json", *options], env=env, cwd=cwd, capture_output=True, text=True, timeout=240
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return done, {(line["area"], line["name"]): line for line in lines}


@pytest.fixture(scope="module")
def looked(library, tmp_path_factory):
    """One look at a machine with two H200, by a user who has planted secrets; with its bundle."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("mallory")
    env = fake_nvml.environment(library, "h200x2", **PLANTED)
    env |= {"HOME": str(folder), "TRAINMETER_HOME": str(folder / "runs-of-mallory")}
    bundle = folder / "node.tar.gz"
    done, lines = doctor("--python", sys.executable, "--dump", str(bundle), env=env, cwd=folder)
    return done, lines, bundle


def test_a_machine_on_which_all_works_has_exit_code_0(looked):
    done, lines, _ = looked
    assert [line for line in lines.values() if line["state"] == "problem"] == []
    assert done.returncode == 0, done.stderr
    for name in ("Python", "agent", "torch", "taps"):
        assert lines["python", name]["state"] == "ok"
    for name in ("run directories", "spool", "file clock", "clock", "/metrics", "readings"):
        assert lines["node", name]["state"] == "ok"


def test_each_gpu_is_named_with_its_peaks_and_counters(looked):
    _, lines, _ = looked
    assert lines["gpu", "driver"]["detail"] == "580.82.07, CUDA up to 13.0"
    assert "bf16 989.4" in lines["gpu", "GPU 0"]["detail"]
    assert lines["gpu", "GPU 1 profiling (GPM)"]["state"] == "ok"


def test_every_tracker_that_is_installed_has_a_line_about_its_tap(looked):
    _, lines, _ = looked
    assert "the tap fits" in lines["tracker", "tensorboard"]["detail"]


def test_the_bundle_holds_what_was_read(looked):
    _, _, bundle = looked
    with tarfile.open(bundle) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        told = json.load(known(archive.extractfile("trainmeter-doctor/gpu.json")))
    assert {
        "doctor.json",
        "node.json",
        "gpu.json",
        "environment.json",
        "files/proc/stat",
        "files/proc/meminfo",
    } <= names
    assert [device["name"] for device in told["devices"]] == ["NVIDIA H200"] * 2
    assert told["readings"][0]["gpu_util_pct"] == 99


def test_the_bundle_holds_no_secret_no_user_and_no_machine(looked):
    _, _, bundle = looked
    with tarfile.open(bundle) as archive:
        text = "\n".join(known(archive.extractfile(name)).read().decode() for name in archive.getnames())
        text += "\n".join(archive.getnames())
    hidden = {SECRET, "pa55w0rd-xyz", "mallory", PLANTED["WANDB_API_KEY"], PLANTED["UNRELATED_VARIABLE"]}
    hidden |= {"aaaa0001-0000-0000-0000-000000000001", "UNRELATED_VARIABLE"}
    assert [word for word in hidden if word in text] == []
    assert "SLURM_JOB_USER" in text, "names of variables that matter stay"


def test_the_machines_name_and_addresses_are_taken_out(monkeypatch):
    from trainmeter_core.outside.doctor.dump import Redactor

    monkeypatch.setattr(platform, "node", lambda: "gpu-17.cluster.example")
    clean = Redactor({"USER": "mallory"})
    assert clean("gpu-17.cluster.example gpu-17 10.0.0.7 /home/alice/x /Users/bob/y") == (
        "[node] [node] [address] /home/[user]/x /Users/[user]/y"
    )


def test_a_python_without_torch_is_told_how_to_choose_another(tmp_path):
    base = Path(sys.base_prefix) / "bin" / "python3"
    env = {**os.environ, "TRAINMETER_HOME": str(tmp_path)}
    if subprocess.run([base, "-c", "import torch"], env=env, capture_output=True).returncode == 0:
        pytest.skip("the base Python has torch")
    done, lines = doctor("--python", str(base), env=env, cwd=tmp_path)
    assert lines["python", "agent"]["state"] == "ok"
    assert lines["python", "torch"] == {
        "area": "python",
        "name": "torch",
        "state": "missing",
        "detail": "not installed",
        "advice": "choose the trainer's Python: --python PATH",
    }
    assert done.returncode == 0


def test_a_python_that_keeps_the_agent_out_is_a_problem(tmp_path):
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\nexec {sys.executable} -E "$@"\n')
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    blind = tmp_path / "empty"
    blind.mkdir()
    done, lines = doctor("--python", str(wrapper), env={**os.environ, "TRAINMETER_HOME": str(tmp_path)}, cwd=blind)
    assert lines["python", "agent"]["state"] == "problem"
    assert "no -I, -E or -S" in lines["python", "agent"]["advice"]
    assert done.returncode == 1


def test_a_python_that_is_not_there_is_a_problem(tmp_path):
    done, lines = doctor(
        "--python", "/nowhere/python", env={**os.environ, "TRAINMETER_HOME": str(tmp_path)}, cwd=tmp_path
    )
    assert lines["python", "Python"]["detail"] == "/nowhere/python: No such file or directory"
    assert done.returncode == 1


LOOK = """
import json, os
from trainmeter_core.outside.doctor.gpus import lines
print(json.dumps([line._asdict() for line in lines(os.environ)]))
"""


def gpu_lines(library, machine, **extra):
    done = fake_nvml.run(library, machine, LOOK, **extra)
    assert done.returncode == 0, done.stderr
    return {line["name"]: line for line in json.loads(done.stdout)}


def test_counters_that_need_another_permission_are_a_problem(library, tmp_path):
    text = (fake_nvml.MACHINES / "h200x2.txt").read_text().replace("gpm 1\n", "gpm 1\n  error nvmlGpmSampleGet 4\n")
    (tmp_path / "machine.txt").write_text(text)
    line = gpu_lines(library, "h200x2", FAKE_NVML_MACHINE=str(tmp_path / "machine.txt"))["GPU 0 profiling (GPM)"]
    assert (line["state"], line["detail"]) == ("problem", "no permission")
    assert "administrator" in line["advice"]


def test_an_older_gpu_misses_profiling_which_is_no_problem(library):
    lines = gpu_lines(library, "a100")
    assert lines["GPU 0 profiling (GPM)"]["state"] == "missing"
    assert {line["state"] for line in lines.values()} == {"ok", "missing"}


def test_a_gpu_that_is_not_in_the_table_says_what_to_do(library):
    line = gpu_lines(library, "silent")["GPU 0"]
    assert (line["state"], line["advice"]) == ("missing", "tm --peak-tflops X …")


def test_a_slice_is_named_by_its_profile(library):
    lines = gpu_lines(library, "mig", CUDA_VISIBLE_DEVICES="MIG-22222222-0000-0000-0000-000000000002")
    assert "1g.10gb" in lines["GPU 0 1g.10gb"]["detail"]
