"""Whole runs under tm on machines with a fake driver: what its text file says is what log, passport and files say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest

from tests.fakes.nvml import fake_nvml
from trainmeter_core.passport.check import check
from trainmeter_core.passport.schema import problems

pytest.importorskip("torch")

PROGRAM = Path(__file__).parent / "programs" / "train_on_gpu.py"
H200 = "GPU-aaaa0001-0000-0000-0000-000000000001"
IDLE = "GPU-bbbb0002-0000-0000-0000-000000000002"


def machine(name: str, *, first: str = "", last: str = "", **without: str) -> str:
    """A machine's text, with lines put in front and at the end (of its last GPU)."""
    return f"{first}\n{(fake_nvml.MACHINES / f'{name}.txt').read_text()}\n{last}\n"


def h200(last: str = "", first: str = "") -> str:
    """The busy one of the two H200 alone."""
    text = machine("h200x2")
    return f"{first}\n{text[: text.rindex('gpu' + chr(10))]}{last}\n"


SPINNING = "".join(f"gpm_{n} {v}\n" for n, v in ((1, 100), (2, 99), (5, 0), (10, 0))) + "power 75\nutil_buffer 100\n"

# name -> (machine, arguments of the program, options of tm, environment)
SCENES = {
    "h200": (machine("h200x2"), ["--uuid", H200[4:]], [], {}),
    "idle": (machine("h200x2"), [], [], {"CUDA_VISIBLE_DEVICES": IDLE}),
    "a100": (machine("a100"), [], [], {}),
    "l4": (machine("l4"), ["--dtype", "float16"], [], {}),
    "mig": (machine("mig"), [], [], {"CUDA_VISIBLE_DEVICES": "MIG-11111111-0000-0000-0000-000000000001"}),
    "gb10": (machine("gb10"), [], [], {}),
    "silent": (machine("silent"), [], [], {}),
    "given": (machine("silent"), [], ["--peak-tflops", "1e-5"], {}),
    "lost": (h200("error * 15 4 6"), ["--seconds", "6"], [], {}),
    "restart": (h200(first="restart 4 6"), ["--seconds", "8"], [], {}),
    "over": (h200(), [], ["--peak-tflops", "1e-6"], {}),
    "cpu": (machine("h200x2"), ["--device", "cpu"], [], {}),
    "no library": (None, [], [], {}),
    "hang": (h200(SPINNING), ["--seconds", "2", "--hang", "16"], [], {}),
}


class Run:
    """What one run left."""

    def __init__(self, name, library, folder):
        text, arguments, options, environment = SCENES[name]
        env = {k: v for k, v in os.environ.items() if not k.startswith("CUDA_")}
        env.update(environment, TRAINMETER_HOME=str(folder / name), PYTHONWARNINGS="ignore")
        if text is not None:
            (folder / f"{name}.txt").write_text(text)
            env.update(LD_LIBRARY_PATH=str(library), FAKE_NVML_MACHINE=str(folder / f"{name}.txt"))
        command = [str(Path(sys.executable).with_name("tm")), *options, str(PROGRAM), *arguments]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=240, cwd=folder)
        self.said = done.stderr
        assert done.returncode == 0, done.stderr
        (self.directory,) = (folder / name / "runs").iterdir()
        self.log = [json.loads(line) for line in (self.directory / "log.jsonl").read_text().splitlines()]
        self.passport = json.loads((self.directory / "passport.json").read_text())

    def records(self, kind):
        return [record for record in self.log if record["type"] == kind]

    def readings(self, uuid=H200):
        return [record["gpus"][uuid] for record in self.records("gpu") if uuid in record["gpus"]]

    def value(self, path):
        found = self.passport
        for part in path.split("."):
            found = found[part]
        return None if found is None else found["value"]

    def why(self, field):
        return next(gap["reason"] for gap in self.passport["gaps"] if gap["field"] == field)

    def verdicts(self):
        return [verdict["code"] for verdict in self.passport["verdicts"]]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """All scenes, seven at a time; each takes its own seconds of wall time, most of them sleep."""
    if fake_nvml.compiler() is None:
        pytest.skip("no C compiler to build the fake driver library with")
    library = fake_nvml.build(tmp_path_factory.mktemp("nvml"))
    folder = tmp_path_factory.mktemp("runs")
    with ThreadPoolExecutor(7) as pool:
        return dict(zip(SCENES, pool.map(lambda name: Run(name, library, folder), SCENES), strict=True))


@pytest.mark.parametrize("name", SCENES)
def test_every_passport_is_valid_and_follows_from_its_inputs(runs, name):
    passport = runs[name].passport
    assert problems(passport) == []
    assert check(passport) == []
    assert not runs[name].records("failure")


def test_an_h200_reads_in_log_and_passport_as_its_script_says(runs):
    run = runs["h200"]
    assert [set(record["gpus"]) for record in run.records("gpu")][-1] == {H200}, "the idle one is not the job's"
    last = run.readings()[-1]
    told = {"gpu_util_pct": 99, "graphics_util_pct": 98.5, "sm_active_pct": 91.5, "sm_occupancy_pct": 24.25}
    told |= {"tensor_active_pct": 46.5, "dram_active_pct": 38.25, "fp32_active_pct": 6.5, "sm_clock_mhz": 1740}
    told |= {"power_w": 612, "temp_c": 61, "mem_used_bytes": 120_000_000_000, "ofu_pct": 46.5 * 1740 / 1830}
    assert {name: last[name] for name in told} == pytest.approx(told, rel=2e-3)
    assert last["throttle"]["power_cap"] == pytest.approx(80, rel=0.02)
    ladder = {"1_gpu_util": 98.5, "2_sm_active": 91.5, "3_tensor_active": 46.5, "4_ofu": 46.5 * 1740 / 1830}
    assert {name: run.value("efficiency.ladder." + name) for name in ladder} == pytest.approx(ladder, rel=1e-3)
    assert run.value("hardware.reference_mhz") == 1830
    assert run.passport["hardware"]["gpus"][0]["name"] == "NVIDIA H200"
    assert run.value("hardware.devices") == 1
    assert (run.passport["software"]["driver"], run.passport["software"]["cuda"]) == ("580.82.07", "13.0")
    watched_s = sum(record["seconds"] for record in run.records("gpu"))
    assert run.value("energy.gpu_kwh") == pytest.approx(612 * watched_s / 3.6e6, rel=0.02)


def test_mfu_is_divided_by_the_dense_peak_of_the_format_that_ran(runs):
    for name, peak, dtype in (("h200", 989.4, "bf16"), ("a100", 312, "bf16"), ("l4", 121, "fp16")):
        run = runs[name]
        assert (run.value("options.peak_tflops"), run.passport["options"]["peak_dtype"]) == (peak, dtype)
        flops = run.value("compute.steady_flops.torchtitan")
        assert run.value("efficiency.mfu_pct") == pytest.approx(
            100 * flops / run.value("steady.seconds") / peak / 1e12, rel=1e-9
        )
        assert f"peak {peak:g} TFLOP/s, {run.passport['options']['peak_source']}" in run.said


def test_what_was_published_to_files_is_the_same(runs):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (folder,) = {path.parent for path in (runs["h200"].directory / "tb").rglob("*tfevents*")}
    events = EventAccumulator(str(folder))
    events.Reload()

    def last(name):
        scalars = events.Scalars("trainmeter/" + name) if "trainmeter/" + name in events.Tags()["scalars"] else None
        return scalars[-1].value if scalars else tensor(name)

    def tensor(name):
        from tensorboard.util.tensor_util import make_ndarray

        return float(make_ndarray(events.Tensors("trainmeter/" + name)[-1].tensor_proto))

    ofu = 46.5 * 1740 / 1830
    told = {"ladder/1_gpu_util": 98.5, "ladder/2_sm_active": 91.5, "ladder/3_tensor_active": 46.5, "ladder/4_ofu": ofu}
    told |= {"gpu/power_w": 612, "gpu/sm_occupancy": 24.25, "gpu/dram_active": 38.25, "gpu/fp32_active": 6.5}
    told |= {"gpu/sm_clock_mhz": 1740, "gpu/mem_used_bytes": 1.2e11, "gpu/temp_c": 61, "gpu/throttle": 80}
    told |= {"gpu/observed_tflops": ofu / 100 * 989.4, "intensity/ridge": 989.4e12 / 4.8e12}
    told |= {"intensity/observed": ofu / 100 * 989.4e12 / (0.3825 * 4.8e12)}
    assert {name: last(name) for name in told} == pytest.approx(told, rel=0.02)
    assert last("gpu/energy_j") > 0
    # The last second's and the whole run's: how much they differ is a matter of what else the machine does.
    assert 0.1 < last("mfu_pct") / runs["h200"].value("efficiency.mfu_pct") < 10


def test_only_the_gpu_that_the_environment_shows_is_watched(runs):
    """Its counters are all 0, which is a value: an idle GPU is not an absent one."""
    run = runs["idle"]
    assert set(run.records("gpu")[0]["gpus"]) == {IDLE}
    assert run.value("efficiency.ladder.3_tensor_active") == 0
    assert run.readings(IDLE)[-1]["power_w"] == pytest.approx(76, rel=0.02)


@pytest.mark.parametrize("name", ["a100", "l4", "gb10"])
def test_a_gpu_without_profiling_counters_has_utilization_and_reasons(runs, name):
    run = runs[name]
    util = {"a100": 96, "l4": 88, "gb10": 96}[name]
    assert run.value("efficiency.ladder.1_gpu_util") == pytest.approx(util, rel=1e-3)
    for rung in ("2_sm_active", "3_tensor_active", "4_ofu"):
        assert run.value("efficiency.ladder." + rung) is None
        assert run.why("efficiency.ladder." + rung) == "not available on this GPU"


def test_an_energy_counter_that_is_missing_is_replaced_by_power_over_time(runs):
    run = runs["l4"]
    seconds = sum(record["seconds"] for record in run.records("gpu"))
    assert run.value("energy.gpu_kwh") == pytest.approx(71 * seconds / 3.6e6, rel=0.05)


def test_a_hot_a100_is_the_line_at_the_end(runs):
    assert "throttled_thermal" in runs["a100"].verdicts()
    assert "because the GPU is too hot" in runs["a100"].said.splitlines()[-1]


def test_a_slice_is_measured_by_its_share_of_the_peak(runs):
    run = runs["mig"]
    assert run.value("options.peak_tflops") == pytest.approx(989.4 * 60 / 132, rel=1e-3)
    assert run.passport["hardware"]["gpus"][0]["name"] == "NVIDIA H100 80GB HBM3 MIG 3g.40gb"
    assert run.value("efficiency.ladder.3_tensor_active") == pytest.approx(50, rel=1e-3)
    assert run.value("energy.gpu_kwh") is None


def test_an_unknown_gpu_has_no_mfu_and_one_line_says_how_to_give_the_peak(runs):
    run = runs["silent"]
    assert run.value("efficiency.mfu_pct") is None
    lines = [line for line in run.said.splitlines() if line.startswith("tm: no MFU: ")]
    assert lines == [
        "tm: no MFU: 'GRID A10-24Q' is not in the table of peaks; give --peak-tflops X (dense TFLOP/s of one GPU)"
    ]
    assert run.why("efficiency.mfu_pct") == "'GRID A10-24Q' is not in the table of peaks; give --peak-tflops"
    assert all("gpu_util_pct" not in reading for record in run.records("gpu") for reading in record["gpus"].values())


def test_a_peak_that_the_user_gives_wins_and_is_named(runs):
    run = runs["given"]
    assert run.passport["options"]["peak_source"] == "user"
    assert run.value("efficiency.mfu_pct") > 0
    assert "no MFU" not in run.said
    assert runs["over"].value("options.peak_tflops") == 1e-6


def test_an_mfu_that_cannot_be_is_flagged_never_clamped(runs):
    run = runs["over"]
    assert run.value("efficiency.mfu_pct") > 100
    assert {"mfu_over_100", "mfu_over_ofu"} <= set(run.verdicts())
    assert run.passport["verdicts"][0]["level"] == "error"
    assert "which is not possible" in run.said.splitlines()[-1]


@pytest.mark.parametrize("name", ["lost", "restart"])
def test_a_gpu_that_goes_away_for_a_while_is_absent_then_and_never_0(runs, name):
    run = runs[name]
    gpu = run.records("gpu")
    silent = max(after["t"] - after["seconds"] - before["t"] for before, after in pairwise(gpu))
    assert silent > 1, "some seconds have no readings"
    for reading in run.readings():
        for key, value in {"tensor_active_pct": 46.5, "gpu_util_pct": 99, "power_w": 612}.items():
            assert reading.get(key, value) == pytest.approx(value, rel=0.02)
    energies = [reading["energy_j"] for reading in run.readings() if "energy_j" in reading]
    assert energies == sorted(energies)
    assert run.value("efficiency.ladder.3_tensor_active") == pytest.approx(46.5, rel=0.01)


def test_a_run_on_the_cpu_of_a_gpu_machine_claims_none_of_them(runs):
    run = runs["cpu"]
    assert run.passport["hardware"]["gpus"] == []
    assert run.passport["readings"]["gpus"] == {}
    assert run.value("efficiency.mfu_pct") is None
    assert run.why("efficiency.ladder.1_gpu_util") == "no GPU in this run"
    assert run.value("energy.gpu_kwh") is None


def test_without_a_driver_library_the_reason_is_recorded(runs):
    run = runs["no library"]
    (record,) = [record for record in run.records("hardware") if "gpus_absent" in record]
    assert "no NVIDIA driver library" in record["gpus_absent"]
    assert not run.records("gpu")
    assert run.why("hardware.gpus") == record["gpus_absent"]
    assert run.why("efficiency.ladder.3_tensor_active") == f"no GPU counters were read: {record['gpus_absent']}"
    assert "tm: no MFU: no NVIDIA driver library" in run.said


def test_a_hang_is_told_once_with_what_the_rank_was_doing(runs):
    run = runs["hang"]
    lines = [line for line in run.said.splitlines() if "No step for" in line]
    assert len(lines) == 2, "once as it happens, once as the verdict at the end"
    assert "rank 0 in a training step" in lines[0]
    assert "does no matrix work at 75 of 700 W" in lines[0]
    (verdict,) = run.records("verdict")
    assert verdict["code"] == "hang"
    assert run.passport["verdicts"][0] == {k: verdict[k] for k in ("code", "level", "sentence")} | {
        "source": "measured"
    }
