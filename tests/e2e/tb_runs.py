"""Writes log directories as runs under tm leave them: real formulas and passports, made-up clocks and GPU counters."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

from tests.known import known
from trainmeter_core.ladder import Counters, climb, observed_intensity
from trainmeter_core.meter import Budget, Meter, Totals, Window
from trainmeter_core.passport.build import build
from trainmeter_core.passport.markdown import render
from trainmeter_core.readings import Absent
from trainmeter_core.run_record import RunRecord, StepBlock, observe
from trainmeter_core.run_tables import Loss
from trainmeter_core.series import PREFIX
from trainmeter_core.shape_from import shape_of
from trainmeter_tb.local import LocalEvents

CONFIG = {"n_layer": 12, "n_head": 12, "n_embd": 768, "block_size": 1024, "vocab_size": 50304, "bias": False}
BATCH, LENGTH = 32, 1024
PEAK_TFLOPS = 989.4
BANDWIDTH = 3.35e12
REFERENCE_MHZ = 1830.0
BEGIN = 1_760_000_000.0


@dataclass
class Story:
    """How a run goes: seconds of a step without waiting, and the share of the time spent waiting for data."""

    name: str
    rows: int = 120
    steps_per_row: int = 50
    step_s: float = 0.062
    data_wait: float = 0.04
    gpus: int = 8
    gpu: bool = True
    peak: bool = True
    passport: bool = True
    begin: float = BEGIN
    node: bool = True
    last: dict[str, float] = field(default_factory=dict)


def write(logdir: str, story: Story) -> dict[str, float]:
    """Write the run below the directory; gives the newest value of every series."""
    dice = random.Random(story.name)
    description = {"class": "GPT", "module": "model", "config": CONFIG, "modules": []}
    shape, source = known(shape_of(description))
    peak = PEAK_TFLOPS if story.peak else Absent("nobody said")
    meter = Meter(shape, ranks=story.gpus, budget=Budget("tokens", 2.5e9), peak_tflops=peak)
    record = _record(story, description, source)
    events = LocalEvents(f"{logdir}/{story.name}")
    now, steps = story.begin, 0
    for number in range(story.rows):
        seconds = _seconds(story, dice, number)
        wall = sum(seconds.values())
        now += wall
        steps += story.steps_per_row
        window = Window(
            story.steps_per_row, wall - seconds["startup"], {(BATCH, LENGTH, 0): story.steps_per_row}, seconds
        )
        totals = Totals(steps, 0, steps * BATCH * LENGTH, steps * BATCH, {(BATCH, LENGTH, 0): steps})
        row = meter.row(window, totals, (story.gpus, 1))
        if story.gpu:
            row.update(_gpu(row, seconds, dice, now - story.begin))
        if story.node and number % 3 == 0:
            row.update(_node(dice, number))
        events.write(row, steps, now)
        story.last.update(row)
        record.add_steps(0, _block(story, steps, seconds, wall, number))
        loss = Loss.of(4.0 * math.exp(-number / 60) + 2.9 + dice.random() / 20, steps)
        record.losses["train/loss"] = record.losses["train/loss"].then(loss) if number else loss
    record.end.code, record.end.seconds = 0, now - story.begin
    passport = build(record)
    events.close(render(passport), passport if story.passport else None)
    return story.last


def _seconds(story: Story, dice: random.Random, number: int) -> dict[str, float]:
    step = story.steps_per_row * story.step_s * (1 + dice.gauss(0, 0.01))
    wait = step * story.data_wait / (1 - story.data_wait) * (1 + dice.gauss(0, 0.1))
    return {
        "step": step,
        "data_wait": max(0.0, wait),
        "checkpoint": 1.4 if number % 25 == 24 else 0.0,
        "eval": 0.8 if number % 20 == 19 else 0.0,
        "logging": 0.01,
        "startup": 6.0 if number == 0 else 0.0,
        "other": 0.03,
    }


def _gpu(row: dict[str, float], seconds: dict[str, float], dice: random.Random, elapsed: float) -> dict[str, float]:
    busy = 100 * seconds["step"] / sum(seconds.values())
    clock = 1755 + dice.gauss(0, 12)
    mfu = row.get(PREFIX + "mfu_pct", 30.0)
    counters = Counters(
        gpu_util_pct=busy,
        sm_active_pct=busy * 0.93,
        tensor_active_pct=mfu * 1.12 * REFERENCE_MHZ / clock,
        dram_active_pct=38 + dice.gauss(0, 1),
        sm_clock_mhz=clock,
    )
    ladder = climb(counters, reference_mhz=REFERENCE_MHZ, hfu_pct=mfu * 1.02, mfu_pct=mfu)
    told = {"ladder/" + name: known(value) for name, value in ladder.rungs()}
    told["hfu_pct"] = mfu * 1.02
    observed = known(ladder.ofu) / 100 * PEAK_TFLOPS
    told["gpu/observed_tflops"] = observed
    told["intensity/observed"] = known(observed_intensity(observed * 1e12, counters.dram_active_pct, BANDWIDTH))
    told["intensity/model"] = 820.0
    told["intensity/ridge"] = PEAK_TFLOPS * 1e12 / BANDWIDTH
    told["gpu/dram_active"] = known(counters.dram_active_pct)
    told["gpu/sm_clock_mhz"] = clock
    told["gpu/power_w"] = 430 + 2 * busy + dice.gauss(0, 6)
    told["gpu/energy_j"] = 600.0 * elapsed * 8
    told["gpu/temp_c"] = 61 + dice.gauss(0, 0.6)
    told["gpu/mem_used_bytes"] = 61.2e9
    return {PREFIX + name: value for name, value in told.items()}


def _node(dice: random.Random, number: int) -> dict[str, float]:
    told = {
        "cpu/user": 22 + dice.gauss(0, 2),
        "cpu/system": 4 + dice.gauss(0, 0.5),
        "cpu/iowait": max(0.0, dice.gauss(1, 1)),
        "load_1": 31 + dice.gauss(0, 1),
        "mem_used_bytes": 212e9 + number * 1e7,
        "disk/nvme0n1/read_bytes_per_s": 1.4e9 + dice.gauss(0, 1e8),
        "net/eth0/sent_bytes_per_s": 3e6 + dice.gauss(0, 1e5),
    }
    return {PREFIX + "node/" + name: value for name, value in told.items()}


def _record(story: Story, description: dict, source: str) -> RunRecord:
    record = RunRecord(world_size=story.gpus, model=description, shape_source=source)
    known = record.identity
    known.run_id, known.script, known.command = story.name, "train.py", ["python", "train.py", "--compile"]
    known.started, known.git_commit, known.git_dirty = story.begin, "4f2c1d9a0b", False
    record.software.python, record.software.torch, record.software.trainmeter = "3.12.4", "2.13.0", "0.1.0"
    record.hardware.gpus = ["NVIDIA H100 80GB HBM3"] * story.gpus if story.gpu else []
    record.hardware.cpu, record.hardware.cpu_cores = "AMD EPYC 9654", 96
    record.options.convention = "torchtitan"
    if story.peak:
        record.options.peak_tflops, record.options.peak_dtype = PEAK_TFLOPS, "bf16"
        record.options.peak_source = "H100 SXM data sheet"
    record.options.budget_tokens, record.options.budget_source = 2_500_000_000, "user"
    if story.gpu:
        observe(record.gpus.setdefault("GPU-1", {}), {"power_w": 612.0, "energy_j": 2.0e6})
    return record


def _block(story: Story, steps: int, seconds: dict[str, float], wall: float, number: int) -> StepBlock:
    n = story.steps_per_row
    return StepBlock(
        n=n,
        first=steps - n + 1,
        last=steps,
        tokens=n * BATCH * LENGTH,
        samples=n * BATCH,
        micro_batches=n,
        wall_s=wall,
        time_s=seconds,
        batches=[(BATCH, LENGTH, 0, n)],
        step_time_s=(story.step_s, story.step_s * 1.1),
        startup=number == 0,
    )


if __name__ == "__main__":
    import sys

    write(sys.argv[1], Story("gpt2-124M/baseline"))
    write(sys.argv[1], Story("gpt2-124M/no-workers", data_wait=0.22, begin=BEGIN - 5000))
    write(
        sys.argv[1], Story("gpt2-124M/on cpu, no peak", gpus=1, gpu=False, peak=False, step_s=2.1, begin=BEGIN - 90000)
    )
