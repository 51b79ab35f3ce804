"""What a window of counters says is wrong, each as one plain sentence; pure functions over a `Ladder`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trainmeter_core.readings import Absent, Reading

if TYPE_CHECKING:
    from trainmeter_core.ladder import Counters, Ladder

MFU_OVER_OFU = 1.15
MIN_STUCK_SAMPLES = 5

# cause -> (what the driver means, what to do), worst first
THROTTLE_CAUSES: dict[str, tuple[str, str]] = {
    "hw_thermal": ("the GPU is too hot (hardware limit)", "check fans, airflow and the room's temperature"),
    "power_brake": ("the machine's power supply asked it to slow down", "check the power supplies of the node"),
    "hw_slowdown": ("the hardware slowed it down", "check temperature and power supplies"),
    "thermal": ("the GPU is too hot (driver limit)", "check fans, airflow and the room's temperature"),
    "sync_boost": ("it follows the slowest GPU of its group", "look for the hot or limited GPU of the group"),
    "app_clocks": ("someone set its clocks", "see nvidia-smi -q -d CLOCK"),
    "power_cap": ("it reached its power limit", "normal under full load; a lower limit was set if it is well below"),
}
_ALWAYS_WRONG = ("hw_thermal", "power_brake", "hw_slowdown", "thermal")
_THROTTLED_PCT = 5.0
_CLOCK_LOSS = 0.05  # of the reference clock; less is not worth a verdict
_BUSY_PCT = 50.0
_HANG_POWER = 0.3  # of the limit; a spinning collective draws little more than an idle GPU


class Verdict(NamedTuple):
    """A finding: a stable code, "error" | "warning" | "info", and one sentence with the figures that led to it."""

    code: str
    level: str
    sentence: str


def verdicts(
    counters: Counters,
    ladder: Ladder,
    *,
    reference_mhz: Reading,
    observed_intensity: Reading,
    ridge: Reading,
    peak_dtype: str,
    steps: int | None = None,
) -> list[Verdict]:
    """Every finding of one window, errors first.

    `steps` is how many optimizer steps it saw (None where that is not known, as from outside alone);
    a run that makes steps does not hang, however idle it looks.
    """
    found = [
        stuck_counters(counters),
        mfu_over_100(ladder),
        mfu_over_ofu(ladder, peak_dtype),
        hang(counters, steps),
        throttled(counters, reference_mhz),
        bound(counters, observed_intensity, ridge),
    ]
    order = {"error": 0, "warning": 1, "info": 2}
    return sorted((verdict for verdict in found if verdict is not None), key=lambda verdict: order[verdict.level])


def without_stuck_counters(counters: Counters) -> Counters:
    """The same counters, with those of a stuck profiling unit made Absent, so that no false 0 is shown."""
    if stuck_counters(counters) is None:
        return counters
    reason = Absent("profiling counters stuck at 0 while the driver reports work")
    return counters._replace(
        gpu_util_pct=counters.driver_util_pct,
        sm_active_pct=reason,
        tensor_active_pct=reason,
        dram_active_pct=reason,
    )


def stuck_counters(counters: Counters) -> Verdict | None:
    """SM activity of exactly 0 over several samples while the driver says busy: the counters fail, as after Xid 31."""
    busy, active = counters.driver_util_pct, counters.sm_active_pct
    if isinstance(busy, Absent) or isinstance(active, Absent):
        return None
    if busy < _BUSY_PCT or active != 0 or counters.samples < MIN_STUCK_SAMPLES:
        return None
    return Verdict(
        "counters_stuck",
        "warning",
        f"The profiling counters read 0 for {counters.samples} samples while the driver reports {busy:.0f} % "
        "utilization, so they are left out; a GPU reset brings them back.",
    )


def mfu_over_100(ladder: Ladder) -> Verdict | None:
    if isinstance(ladder.mfu, Absent) or ladder.mfu <= 100:  # noqa: PLR2004 (percent)
        return None
    return Verdict(
        "mfu_over_100",
        "error",
        f"MFU is {ladder.mfu:.1f} %, which is not possible: the FLOPs count is too high, or the peak another device's.",
    )


def mfu_over_ofu(ladder: Ladder, peak_dtype: str) -> Verdict | None:
    """MFU above 1.15 x OFU; not judged for plain fp32, whose matmuls the tensor counter does not see."""
    if isinstance(ladder.mfu, Absent) or isinstance(ladder.ofu, Absent) or peak_dtype == "fp32":
        return None
    if ladder.mfu <= MFU_OVER_OFU * ladder.ofu:
        return None
    return Verdict(
        "mfu_over_ofu",
        "error",
        f"MFU is {ladder.mfu:.1f} % but the tensor cores did only {ladder.ofu:.1f} % of the {peak_dtype} peak: "
        "your FLOPs count or the peak is wrong (experts that do not run, or a faster number format than the peak's).",
    )


def hang(counters: Counters, steps: int | None) -> Verdict | None:
    """A kernel always running, no tensor work, little power, no step: ranks spin in a collective that never ends."""
    util, tensor = counters.driver_util_pct, counters.tensor_active_pct
    power, limit = counters.power_w, counters.power_limit_w
    if steps or isinstance(util, Absent) or isinstance(tensor, Absent):
        return None
    if isinstance(power, Absent) or isinstance(limit, Absent):
        return None
    if util < 99 or tensor >= 0.5 or power >= _HANG_POWER * limit:  # noqa: PLR2004 (percent)
        return None
    return Verdict(
        "hang",
        "error",
        f"A kernel is always running ({util:.0f} %) but does no matrix work at {power:.0f} of {limit:.0f} W: "
        "this looks like ranks waiting for one another in a collective that does not end.",
    )


def throttled(counters: Counters, reference_mhz: Reading) -> Verdict | None:
    """The worst cause that held the clock down for more than 5 % of the window.

    Heat, power supplies and hardware slowdowns always count; the power limit, set clocks and sync boost only where the
    clock really was 5 % below the reference.
    """
    clock = counters.sm_clock_mhz
    slow = (
        not isinstance(clock, Absent)
        and not isinstance(reference_mhz, Absent)
        and clock < (1 - _CLOCK_LOSS) * reference_mhz
    )
    for cause, (meaning, remedy) in THROTTLE_CAUSES.items():
        share = counters.throttle_pct.get(cause, Absent("not sampled"))
        if isinstance(share, Absent) or share <= _THROTTLED_PCT:
            continue
        if cause not in _ALWAYS_WRONG and not slow:
            continue
        at = "" if isinstance(clock, Absent) else f" at {clock:.0f} MHz"
        level = "warning" if cause in _ALWAYS_WRONG else "info"
        sentence = f"The clock was held down{at} for {share:.0f} % of the time because {meaning}: {remedy}."
        return Verdict("throttled_" + cause, level, sentence)
    return None


def bound(counters: Counters, observed_intensity: Reading, ridge: Reading) -> Verdict | None:
    """Memory-bound: below the ridge with memory busy. Launch-bound: a kernel runs, but nothing is near a limit."""
    tensor, dram, util = counters.tensor_active_pct, counters.dram_active_pct, counters.driver_util_pct
    if isinstance(tensor, Absent) or isinstance(dram, Absent):
        return None
    below_ridge = (
        not isinstance(observed_intensity, Absent) and not isinstance(ridge, Absent) and observed_intensity < ridge
    )
    if below_ridge and dram >= 60:  # noqa: PLR2004 (percent; about 80 is the most that real kernels reach)
        return Verdict(
            "memory_bound",
            "info",
            f"Memory is the limit (active {dram:.0f} % of the time, tensor cores {tensor:.0f} %): fuse operations, "
            "use a narrower number format, or a larger batch.",
        )
    if isinstance(util, Absent) or util < _BUSY_PCT:
        return None
    if tensor < 35 and dram < 50:  # noqa: PLR2004 (percent)
        return Verdict(
            "launch_bound",
            "info",
            f"Kernels run, but neither tensor cores ({tensor:.0f} %) nor memory ({dram:.0f} %) are near their limit: "
            "many small kernels or waiting between them; try torch.compile, CUDA graphs or a larger batch.",
        )
    return None
