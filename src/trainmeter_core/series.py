"""Every published series: name, unit and one-line meaning; docs/spec.md is generated from this table."""

from __future__ import annotations

from typing import NamedTuple

PREFIX = "trainmeter/"


class Series(NamedTuple):
    """One published series; a name with ``<…>`` stands for a family."""

    name: str
    unit: str
    meaning: str


TIME_KINDS = ("step", "data_wait", "checkpoint", "eval", "logging", "startup", "other")

RUNG_NAMES = {
    "1_gpu_util": "GPU busy",
    "2_sm_active": "SMs active",
    "3_tensor_active": "tensor cores active",
    "4_ofu": "OFU",
    "5_hfu": "HFU",
    "6_mfu": "MFU",
}
"""The rungs of the ladder as people read them."""
LADDER_RUNGS = tuple(RUNG_NAMES)

CUMULATIVE = ("step", "steps_skipped", "tokens", "samples", "flops")
"""Series that are sums since the start of the run; a resumed run goes on from them."""

GPU_FAMILIES = ("ladder/", "gpu/", "intensity/")

_PROGRESS: list[Series] = [
    Series("step", "steps", "optimizer steps; gradient accumulation counts as one, a skipped step is counted apart"),
    Series("steps_skipped", "steps", "optimizer steps that a gradient scaler skipped"),
    Series("tokens", "tokens", "tokens trained on, summed over data-parallel ranks"),
    Series("samples", "samples", "sequences or images trained on, summed over data-parallel ranks"),
    Series("flops", "FLOPs", "model FLOPs spent under the headline convention"),
    Series("flops_required", "FLOPs", "model FLOPs that the budget needs under the headline convention"),
    Series("progress_pct", "percent", "share of the budget done"),
    Series("eta_s", "seconds", "time to the end of the budget at the mean speed of the last 64 windows"),
    Series("eta_plus_minus_s", "seconds", "two standard deviations of that time, from the spread of those windows"),
    Series("tokens_per_s", "tokens/s", "global tokens per second over the last window of whole steps"),
    Series("tokens_per_s_per_gpu", "tokens/s", "tokens per second and GPU over the last window of whole steps"),
    Series("samples_per_s", "samples/s", "global samples per second over the last window of whole steps"),
    Series("step_time_s", "seconds", "mean time of an optimizer step over the last window of whole steps"),
    Series("tflops_per_gpu", "TFLOP/s", "model FLOP rate of one GPU under the headline convention"),
    Series("tflops", "TFLOP/s", "model FLOP rate of the run under the headline convention"),
]

_EFFICIENCY: list[Series] = [
    Series("mfu_pct", "percent", "model FLOPs utilization under the headline convention"),
    Series("mfu/<convention>", "percent", "model FLOPs utilization under the named convention"),
    Series("hfu_pct", "percent", "hardware FLOPs utilization: executed model FLOPs, recompute included"),
]

_LADDER: list[Series] = [
    Series("ladder/1_gpu_util", "percent", "time in which any kernel was running"),
    Series("ladder/2_sm_active", "percent", "SM cycles with at least one warp assigned"),
    Series("ladder/3_tensor_active", "percent", "cycles in which a tensor pipe was busy"),
    Series("ladder/4_ofu", "percent", "observed FLOPs utilization: tensor active x SM clock / reference clock"),
    Series("ladder/5_hfu", "percent", "hardware FLOPs utilization, recompute included"),
    Series("ladder/6_mfu", "percent", "model FLOPs utilization under the headline convention"),
]

_GPU: list[Series] = [
    Series("gpu/sm_occupancy", "percent", "resident warps of the most an SM can hold"),
    Series("gpu/dram_active", "percent", "cycles in which the memory interface was busy"),
    Series("gpu/fp32_active", "percent", "cycles in which the FP32 pipe was busy"),
    Series("gpu/power_w", "watts", "board power"),
    Series("gpu/energy_j", "joules", "energy of the job's GPUs of this node since the start of the run, their sum"),
    Series("gpu/sm_clock_mhz", "MHz", "SM clock"),
    Series("gpu/mem_used_bytes", "bytes", "device memory in use"),
    Series("gpu/temp_c", "degrees C", "GPU temperature"),
    Series("gpu/throttle", "percent", "time in which the clock was held back"),
    Series("gpu/observed_tflops", "TFLOP/s", "tensor active x peak of the dtype x clock / reference clock"),
]

_INTENSITY: list[Series] = [
    Series("intensity/observed", "FLOP/byte", "observed FLOPs over the DRAM bytes of the same window"),
    Series(
        "intensity/model",
        "FLOP/byte",
        "model FLOPs of a step (headline) over the fewest bytes it must move: its weights alone",
    ),
    Series("intensity/ridge", "FLOP/byte", "peak over memory bandwidth"),
]

_TIME: list[Series] = [
    Series("time/step", "percent", "forward, backward and optimizer, as the host sees them"),
    Series("time/data_wait", "percent", "blocked in a data loader's next"),
    Series("time/checkpoint", "percent", "saving checkpoints"),
    Series("time/eval", "percent", "evaluation"),
    Series("time/logging", "percent", "the user's own time in tracker calls"),
    Series("time/startup", "percent", "process start to the end of the first step, compilation included"),
    Series("time/other", "percent", "everything else"),
]

_NODE: list[Series] = [Series("node/<reading>", "see docs/node.md", "the node's own readings, published sparsely")]

SERIES: tuple[Series, ...] = tuple(_PROGRESS + _EFFICIENCY + _LADDER + _GPU + _INTENSITY + _TIME + _NODE)

_BY_NAME: dict[str, Series] = {series.name: series for series in SERIES}


def series_of(name: str) -> Series:
    """Give the registry entry of a published name, with or without the prefix.

    Raises KeyError for a name that trainmeter does not publish.
    """
    bare = name[len(PREFIX) :] if name.startswith(PREFIX) else name
    if bare in _BY_NAME:
        return _BY_NAME[bare]
    family = bare.split("/", 1)[0]
    for known in SERIES:
        if known.name.startswith(family + "/<"):
            return known
    raise KeyError(name)
