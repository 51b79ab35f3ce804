"""Run records for the passport's tests: a rich one, a poor one, and the conventions of a toy model."""

from __future__ import annotations

from typing import NamedTuple

from trainmeter_core.flops.counted import Counted
from trainmeter_core.passport.formulas import Formulas
from trainmeter_core.readings import Absent
from trainmeter_core.restarts import Lives
from trainmeter_core.run_record import Failure, Noted, RankTotals, RunRecord, StepBlock, observe
from trainmeter_core.run_tables import Loss, Statistics

PARAMETERS = 1_000_003
PEAK_TFLOPS = 989.4
_SIZE = 2 * PARAMETERS
BYTES = {"forward": {"bfloat16": _SIZE}, "backward": {"bfloat16": _SIZE}, "gradients": _SIZE, "trained": _SIZE}
"""The toy's weights in bfloat16, all trained."""


class ToyShape(NamedTuple):
    parameters: int = PARAMETERS
    trainable_parameters: int = PARAMETERS
    inactive_parameters: int = 3
    width: int = 64
    layers: int = 2
    family: str = "toy"
    gap: str = ""


def toy_formulas(description) -> Formulas | Absent:
    """6 N T without and with an attention term, and a convention that never applies."""
    if isinstance(description, Absent):
        return Absent("no model was seen")

    def of_sequence(seq_len, target_len):
        linear = 6 * PARAMETERS * (seq_len + target_len)
        return {
            "hf": linear,
            "torchtitan": linear + 12 * 2 * 64 * seq_len**2,
            "chinchilla": Absent("heads are not visible"),
        }

    return Formulas("torchtitan", ToyShape(), "toy_config", of_sequence)


def block(n=1, **fields) -> StepBlock:
    defaults = {
        "tokens": 4 * 128 * n,
        "samples": 4 * n,
        "micro_batches": n,
        "wall_s": 0.5 * n,
        "time_s": {"step": 0.4 * n, "data_wait": 0.05 * n, "checkpoint": 0.0, "logging": 0.01 * n},
        "batches": [(4, 128, 0, n)],
        "step_time_s": (0.45, 0.55),
    }
    return StepBlock(n=n, **{**defaults, **fields})


def gpu_readings(tensor: float) -> list[tuple[str, float]]:
    """One sample of a GPU at work, its clock a little below the reference of 1830 MHz."""
    return [
        ("gpu_util_pct", 99.0),
        ("graphics_util_pct", 97.3),
        ("sm_active_pct", 90.0),
        ("tensor_active_pct", tensor),
        ("dram_active_pct", 40.0),
        ("sm_clock_mhz", 1800.0),
        ("ofu_pct", tensor * 1800 / 1830),
        ("power_w", 600.0),
        ("power_limit_w", 700.0),
        ("throttle/power_cap", 60.0),
    ]


def rich() -> RunRecord:
    """Two ranks on two GPUs, with everything that a run can tell."""
    record = RunRecord()
    known = record.identity
    known.run_id, known.name, known.script = "abc123", "first try", "train.py"
    known.command = ["python", "train.py", "--lr", "3e-4"]
    known.started, known.git_commit, known.git_dirty = 1_700_000_000.0, "45a0b47", True
    software = record.software
    software.python, software.torch, software.cuda, software.driver = "3.12.1", "2.13.0", "13.0", "580.65"
    software.trainmeter, software.packages = "0.1.0", {"wandb": "0.24.0"}
    hardware = record.hardware
    hardware.gpus = ["NVIDIA H100 80GB HBM3"] * 2
    hardware.cpu, hardware.cpu_cores, hardware.memory_bytes, hardware.interconnect = "EPYC 9654", 96, 2**40, "NVLink"
    hardware.reference_mhz, hardware.bandwidth_bytes_per_s = 1830.0, 3.35e12
    options = record.options
    options.convention, options.peak_tflops, options.peak_dtype = "torchtitan", PEAK_TFLOPS, "bfloat16"
    options.peak_source = "H100 SXM datasheet"
    options.budget_tokens, options.budget_source = 20_000_000, "user"
    record.world_size = 2
    record.model = {"class": "Toy", "bytes": BYTES}
    for rank in (0, 1):
        record.rank(rank).processes = 1
        record.add_steps(rank, block(1, wall_s=10.0, time_s={}, startup=True, step_time_s=None))
        record.add_steps(rank, block(100, first=2, last=101, skipped=1))
        record.add_steps(rank, StepBlock(n=0, wall_s=2.0, time_s={"checkpoint": 1.5}))
    record.counted = Counted(((4, 128, 0, 8 * PARAMETERS * 4 * 128),), (), "")
    record.spans["checkpoint"] = Statistics(1, 1.5, 1.5, 1.5)
    record.losses["train/loss"] = Loss.of(10.5, 1).then(Loss.of(3.25, 50)).then(Loss.of(3.5, 101))
    record.trackers.append({"tracker": "wandb", "where": {"url": "https://wandb.ai/me/p/runs/1"}})
    for power in (300.0, 500.0):
        observe(record.node, {"cpu": {"user": power / 10}})
        record.gpus.setdefault("GPU-1", {})
        observe(record.gpus["GPU-1"], {"power_w": power, "energy_j": power * 1000})
    record.steady_gpus.started(1_700_000_010.0)
    for uuid, tensor in (("GPU-1", 30.0), ("GPU-2", 20.0)):
        record.steady_gpus.add(uuid, gpu_readings(tensor), begin=1_700_000_011.0)
    record.steady_gpus.stepped()
    record.noted.append(Noted("xid", "error", "The driver reported error Xid 63 for GPU-2."))
    record.failures.append(Failure("model tap", 2, "KeyError: 'x'"))
    record.end.code, record.end.signal, record.end.seconds = 0, Absent("ended by itself"), 64.25
    record.last_seen = 1_700_000_064.25
    return record


def cpu_run() -> RunRecord:
    """One rank of two seen, no GPU, no peak, a loss that was never finite, ended by a signal."""
    record = RunRecord()
    record.identity.script = "train.py"
    record.hardware.gpus = []
    record.world_size = 2
    record.model = {"class": "Toy"}
    record.rank(0).processes = 3
    record.add_steps(0, block(1, startup=True, time_s={"data_wait": None}))
    record.add_steps(0, block(10, time_s={"step": 1.0, "data_wait": None}))
    record.losses["loss"] = Loss.of(float("nan"), None)
    record.end.code, record.end.signal, record.end.seconds = Absent("ended by a signal"), 9, 8.0
    return record


def unseen_batches() -> RunRecord:
    """Steps whose batches no tap saw."""
    record = RunRecord()
    record.world_size = 1
    record.model = {"class": "Toy"}
    record.add_steps(0, block(5, tokens=None, samples=None, micro_batches=None, batches=[]))
    return record


def empty() -> RunRecord:
    """A run of which nothing is known."""
    return RunRecord()


def split() -> RunRecord:
    """A node with four of eight ranks: two pipelines of two stages; it was restarted, and lost the steps since a save."""
    record = RunRecord()
    record.model = {"class": "Toy"}
    record.world_size, record.batch_ranks = 8, 2
    for rank in range(4):
        record.rank(rank).counts = rank % 2 == 0
        life, _ = record.lives.setdefault(rank, Lives()).of(1, 1)
        life.steps, life.saves = 6, [["", 4]]
        record.lives[rank].of(1, 2)[0].steps = 5
        record.rank(rank).processes = 2
        given = {} if rank % 2 == 0 else {"tokens": 0, "samples": 0, "micro_batches": 0, "batches": []}
        record.add_steps(rank, block(1, startup=True, step_time_s=None, **given))
        record.add_steps(rank, block(10, **given))
    record.end.code, record.end.seconds = 0, 20.0
    return record


def summed() -> RunRecord:
    """A tracker's run of which only sums over all ranks are known, and not how many these were."""
    record = RunRecord()
    record.model = {"class": "Toy"}
    record.summed = RankTotals(processes=1)
    record.summed.add(block(10, first=1, last=10))
    record.summed.dropped_records = 2
    return record


RECORDS = {
    "rich": rich,
    "cpu": cpu_run,
    "unseen batches": unseen_batches,
    "summed": summed,
    "empty": empty,
    "split": split,
}
