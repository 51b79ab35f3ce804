"""The passport that an adapter writes from inside holds what tm knows of the GPUs outside: SKU, peak and ladder."""

from __future__ import annotations

import json

import pytest

from trainmeter_core.inside.board import log_records, readings_of
from trainmeter_core.inside.own_record import passport_so_far
from trainmeter_core.passport.check import check
from trainmeter_core.passport.schema import problems

STEPS = {"type": "steps", "rank": 0, "pid": 1, "tokens": 8, "samples": 2, "micro_batches": 1, "batches": [[2, 4, 0, 1]]}
STARTUP = {**STEPS, "first": 1, "last": 1, "n": 1, "wall_s": 3.0, "time": {"startup": 3.0}, "startup": True}
STEADY = {**STEPS, "first": 2, "last": 9, "n": 8, "wall_s": 2.0, "time": {"step": 2.0}}
BOARD = {
    "series": {"gpu/power_w": 612.0, "gpu/temp_c": float("nan")},
    "hardware": {
        "driver": "580.82",
        "gpus": [{"name": "NVIDIA H200", "uuid": "GPU-1"}],
        "reference_mhz": 1830.0,
        "bandwidth_bytes_per_s": 4.8e12,
        "peak_tflops": 989.4,
        "peak_source": "NVIDIA H200 datasheet",
        "peak_dtype": "bf16",
    },
    "gpu": {"GPU-1": {"graphics_util_pct": 98.5, "sm_active_pct": 91.5, "tensor_active_pct": 46.5, "ofu_pct": 44.2}},
    "peak_tflops": 989.4,
}


def test_what_lies_on_the_board_is_in_the_passport():
    passport = passport_so_far("", [STARTUP, *log_records(BOARD), STEADY])
    ladder = {name: rung and rung["value"] for name, rung in passport["efficiency"]["ladder"].items()}
    assert list(ladder.values())[:4] == [98.5, 91.5, 46.5, 44.2]
    assert passport["options"]["peak_tflops"]["value"] == 989.4
    assert passport["hardware"]["gpus"][0]["name"] == "NVIDIA H200"
    assert passport["software"]["driver"] == "580.82"
    assert problems(json.loads(json.dumps(passport))) == []
    assert check(passport) == []


def test_without_a_board_the_passport_says_so():
    passport = passport_so_far("", [STARTUP, *log_records({}), STEADY])
    reasons = {gap["field"]: gap["reason"] for gap in passport["gaps"]}
    assert reasons["efficiency.ladder.1_gpu_util"] == "no GPU counters were read"


def test_only_finite_readings_are_published():
    assert readings_of(BOARD) == {"gpu/power_w": pytest.approx(612)}


@pytest.mark.parametrize(("launched", "wall"), [(1003.0, 60), (1040.0, 20)])
def test_a_program_that_a_launcher_starts_later_counts_from_its_own_start(tmp_path, monkeypatch, launched, wall):
    """Like the trials of a sweep; what tm itself starts counts from the start of the run."""
    (tmp_path / "run.json").write_text(json.dumps({"version": "trainmeter-run/1", "started": 1000.0}))
    monkeypatch.setattr("trainmeter_core.inside.own_record.time", lambda: 1060.0)
    process = {"type": "process", "rank": 0, "pid": 1, "local_rank": 0, "world_size": 1, "started": launched}
    passport = passport_so_far(str(tmp_path), [process, STARTUP, STEADY])
    assert passport["time"]["wall_s"]["value"] == wall
    assert check(passport) == []
