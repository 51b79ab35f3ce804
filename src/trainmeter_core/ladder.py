"""The utilization ladder: from wall time to MFU in six rungs, and what each gap between two of them means.

Pure functions of readings. Percent are 0-100, clocks MHz, rates per second. The rungs are not monotone: OFU may exceed
tensor activity (a clock above the reference), and MFU may exceed OFU (a wrong count or peak); nothing here clamps.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Mapping, NamedTuple, Sequence

from trainmeter_core.readings import Absent, Reading, present

MIN_DRAM_ACTIVE_PCT = 1.0
_SAME_PCT = 2.0  # two counters of different sources and windows agree no better than this
_NOT_SAMPLED = Absent("not sampled")

RUNGS: tuple[tuple[str, str], ...] = (
    ("1_gpu_util", "a kernel was running"),
    ("2_sm_active", "SMs had work"),
    ("3_tensor_active", "tensor cores were busy"),
    ("4_ofu", "tensor work, in units of the peak"),
    ("5_hfu", "model FLOPs with recomputation, in units of the peak"),
    ("6_mfu", "model FLOPs, in units of the peak"),
)


class Counters(NamedTuple):
    """What the counters of one GPU (or the mean of several) said over one window of `samples` samples.

    gpu_util_pct should come from the same source as sm_active_pct where both exist; driver_util_pct is the driver's own
    coarse utilization. throttle_pct: share of the window per cause, keys as in `verdicts.THROTTLE_CAUSES`.
    """

    gpu_util_pct: Reading = _NOT_SAMPLED
    driver_util_pct: Reading = _NOT_SAMPLED
    sm_active_pct: Reading = _NOT_SAMPLED
    tensor_active_pct: Reading = _NOT_SAMPLED
    dram_active_pct: Reading = _NOT_SAMPLED
    sm_clock_mhz: Reading = _NOT_SAMPLED
    power_w: Reading = _NOT_SAMPLED
    power_limit_w: Reading = _NOT_SAMPLED
    throttle_pct: Mapping[str, Reading] = MappingProxyType({})
    samples: int = 1


class Ladder(NamedTuple):
    """The six rungs, percent, in the order of `RUNGS`."""

    gpu_util: Reading
    sm_active: Reading
    tensor_active: Reading
    ofu: Reading
    hfu: Reading
    mfu: Reading

    def rungs(self) -> list[tuple[str, Reading]]:
        """Each rung's series name ("1_gpu_util" …) and reading."""
        return [(key, value) for (key, _), value in zip(RUNGS, self)]


class Gap(NamedTuple):
    """The way from one known rung to the next known one; `points` is lower minus upper, and may be negative."""

    upper: str
    lower: str
    points: float
    sentence: str


class Spread(NamedTuple):
    """A reading over several GPUs: mean, least and greatest of those that have it, and how many do."""

    mean: Reading
    least: Reading
    greatest: Reading
    known: int
    total: int


def ofu_pct(tensor_active_pct: Reading, sm_clock_mhz: Reading, reference_mhz: Reading) -> Reading:
    """Tensor activity x SM clock / reference clock: FLOPs executed by tensor cores, percent of the dense peak.

    Source: arXiv 2605.20799. Counts padding of tiles and every kernel on the tensor cores, whatever its number format;
    leaves out CUDA-core FLOPs. The reference is the clock of the published peak (1830 MHz for an H100 SXM), not the
    highest that the driver reports (1980 MHz), which would understate by 8 %. May exceed 100.
    """
    if isinstance(tensor_active_pct, Absent):
        return tensor_active_pct
    if isinstance(sm_clock_mhz, Absent):
        return sm_clock_mhz
    if isinstance(reference_mhz, Absent):
        return reference_mhz
    return tensor_active_pct * sm_clock_mhz / reference_mhz


def observed_flops_per_s(ofu: Reading, peak_flops_per_s: Reading, dtype: str) -> Reading:
    """FLOP/s the tensor cores executed, were it all in `dtype`: OFU x that format's dense peak.

    The counter cannot tell formats apart, so a mixed job is off by their ratio. Absent for plain fp32, whose matmuls
    run on the CUDA cores that the counter does not see.
    """
    if dtype == "fp32":
        return Absent("plain fp32 matmuls do not run on tensor cores, so their activity says nothing about FLOPs")
    if isinstance(ofu, Absent):
        return ofu
    if isinstance(peak_flops_per_s, Absent):
        return peak_flops_per_s
    return ofu / 100.0 * peak_flops_per_s


def dram_bytes_per_s(dram_active_pct: Reading, bandwidth_bytes_per_s: Reading) -> Reading:
    """Bytes per second between the device's memory and its L2 cache: activity x peak bandwidth."""
    if isinstance(dram_active_pct, Absent):
        return dram_active_pct
    if isinstance(bandwidth_bytes_per_s, Absent):
        return bandwidth_bytes_per_s
    return dram_active_pct / 100.0 * bandwidth_bytes_per_s


def observed_intensity(flops_per_s: Reading, dram_active_pct: Reading, bandwidth_bytes_per_s: Reading) -> Reading:
    """FLOPs per byte of memory traffic over one window; Absent below 1 % memory activity, where it is all noise.

    Traffic is counted after the L2 cache. With activations in it, this is normally below the model's own intensity;
    above it are models whose weights stay in that cache.
    """
    if isinstance(flops_per_s, Absent):
        return flops_per_s
    bytes_per_s = dram_bytes_per_s(dram_active_pct, bandwidth_bytes_per_s)
    if isinstance(bytes_per_s, Absent):
        return bytes_per_s
    if isinstance(dram_active_pct, Absent) or dram_active_pct < MIN_DRAM_ACTIVE_PCT:
        return Absent("memory was active less than 1 % of the time")
    return flops_per_s / bytes_per_s


def model_intensity(flops_per_step: Reading, fewest_bytes_per_step: Reading) -> Reading:
    """Model FLOPs of a step per byte it must move at the least (`weight_traffic`): FLOP/byte, an upper limit."""
    if isinstance(flops_per_step, Absent):
        return flops_per_step
    if isinstance(fewest_bytes_per_step, Absent):
        return fewest_bytes_per_step
    if fewest_bytes_per_step <= 0:
        return Absent("the fewest bytes a step must move are not known")
    return flops_per_step / fewest_bytes_per_step


def ridge_intensity(peak_flops_per_s: Reading, bandwidth_bytes_per_s: Reading) -> Reading:
    """FLOPs per byte above which the dense peak, not the memory, is the limit."""
    if isinstance(peak_flops_per_s, Absent):
        return peak_flops_per_s
    if isinstance(bandwidth_bytes_per_s, Absent):
        return bandwidth_bytes_per_s
    return peak_flops_per_s / bandwidth_bytes_per_s


def climb(counters: Counters, *, reference_mhz: Reading, hfu_pct: Reading, mfu_pct: Reading) -> Ladder:
    """The ladder of one window."""
    return Ladder(
        gpu_util=counters.gpu_util_pct if present(counters.gpu_util_pct) else counters.driver_util_pct,
        sm_active=counters.sm_active_pct,
        tensor_active=counters.tensor_active_pct,
        ofu=ofu_pct(counters.tensor_active_pct, counters.sm_clock_mhz, reference_mhz),
        hfu=hfu_pct,
        mfu=mfu_pct,
    )


def gaps(ladder: Ladder) -> list[Gap]:
    """One plain sentence per pair of neighbouring known rungs, from wall time (100 %) to MFU."""
    known: list[tuple[str, float | int]] = [("0_wall", 100.0)]
    known += [(key, value) for key, value in ladder.rungs() if not isinstance(value, Absent)]
    return [
        Gap(upper, lower, high - low, gap_sentence(upper, lower, high - low))
        for (upper, high), (lower, low) in zip(known, known[1:])
    ]


def gap_sentence(upper: str, lower: str, points: float) -> str:
    """What a gap of `points` percent points from rung `upper` down to `lower` means, and what to look at."""
    if abs(points) < _SAME_PCT:
        return "Nothing is lost here."
    if (upper, lower) not in _MEANING:
        return _SKIPPED.format(abs(points)) if points > 0 else _SKIPPED_RISE.format(abs(points))
    meaning = _MEANING[upper, lower]
    return (meaning.loss if points > 0 else meaning.rise).format(abs(points))


def spread(readings: Sequence[Reading]) -> Spread:
    """The mean, least and greatest of what is known; all Absent, with the first reason, where nothing is."""
    known = [reading for reading in readings if not isinstance(reading, Absent)]
    if not known:
        reason = next((reading for reading in readings if isinstance(reading, Absent)), Absent("no GPU"))
        return Spread(reason, reason, reason, 0, len(readings))
    return Spread(sum(known) / len(known), min(known), max(known), len(known), len(readings))


_SKIPPED = (
    "{:.0f} points are lost between these two, and the counters that would say where are not available on this GPU."
)
_SKIPPED_RISE = (
    "The lower rung is {:.0f} points above the upper one: the FLOPs count or the peak it is divided by is wrong."
)
_COARSE = "The two come from different counters or windows, which explains {:.0f} points: compare longer windows."


class _Meaning(NamedTuple):
    """The sentence for a loss and the one for a rise; {} is filled with percent points."""

    loss: str
    rise: str


_MEANING: dict[tuple[str, str], _Meaning] = {
    ("0_wall", "1_gpu_util"): _Meaning(
        loss="For {:.0f} % of the time no kernel ran, because the GPU waited for data, for Python to launch work, for "
        "a checkpoint or for an evaluation: look at where the time goes.",
        rise="The driver reports {:.0f} points above 100 %, which is not possible: its counter is wrong.",
    ),
    ("1_gpu_util", "2_sm_active"): _Meaning(
        loss="During {:.0f} points of this time the kernels left SMs empty: look for small kernels, a small batch, or "
        "ranks waiting in communication.",
        rise=_COARSE,
    ),
    ("2_sm_active", "3_tensor_active"): _Meaning(
        loss="For {:.0f} points the SMs had work but no matrix product: memory-bound kernels, elementwise operations, "
        "the optimizer or communication; look at memory activity and at fusing (torch.compile).",
        rise=_COARSE,
    ),
    ("3_tensor_active", "4_ofu"): _Meaning(
        loss="{:.0f} points are lost because the clock was below that of the published peak: look at power and "
        "temperature limits.",
        rise="Nothing is lost here: the clock was above that of the published peak, which adds {:.0f} points.",
    ),
    ("4_ofu", "5_hfu"): _Meaning(
        loss="The tensor cores did {:.0f} points more than the count of model FLOPs with recomputation: padding of "
        "matrix tiles (look at dimensions that are not multiples of 128), kernels that the count leaves out, or the "
        "peak of a faster number format than the one that ran.",
        rise="The count of FLOPs is {:.0f} points above what the tensor cores did: it counts too much (experts that "
        "do not run, for example), or the peak is not that of the number format that ran.",
    ),
    ("5_hfu", "6_mfu"): _Meaning(
        loss="{:.0f} points are recomputed activations or a difference between conventions: try less activation "
        "checkpointing if memory allows.",
        rise="MFU is {:.0f} points above HFU because its convention counts work that the measured count does not.",
    ),
    ("4_ofu", "6_mfu"): _Meaning(
        loss="The tensor cores did {:.0f} points more than the model's FLOPs: recomputed activations, padding of "
        "matrix tiles, or kernels that the convention leaves out.",
        rise="MFU is {:.0f} points above what the tensor cores did: the convention counts too much, or the "
        "peak is not that of the number format that ran.",
    ),
}
