"""Turns what was observed of a run into the published series; pure functions of counts and durations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Mapping, NamedTuple, Tuple

from .flops import CONVENTIONS, HEADLINE, training_flops
from .flops.counted import Counted
from .flops.executed import executed_flops
from .ladder import model_intensity
from .pace import Pace
from .readings import Absent
from .series import PREFIX, TIME_KINDS

if TYPE_CHECKING:
    from .model_shape import ModelShape
    from .weight_traffic import Traffic

BUDGET_KINDS = ("tokens", "steps", "flops", "hours")

Shape = Tuple[int, int, int]
"""Sequences, length, target length of one micro-batch."""


class Window(NamedTuple):
    """What one or several ranks did in whole optimizer steps; the startup is in ``seconds`` and nowhere else."""

    steps: int
    rate_s: float
    """Wall seconds over the steps that rates are taken from, the first step of the process left out."""
    rate_batches: Mapping[Shape, int]
    """Micro-batches by shape over the same steps."""
    seconds: Mapping[str, float]
    """Wall seconds by kind over the whole window; a kind that cannot be observed is left out."""
    ranks: int = 1
    """Ranks whose micro-batches these are; each of them made all the steps."""


class Totals(NamedTuple):
    """Sums since the start of the run."""

    steps: int
    skipped: int
    tokens: int
    samples: int
    batches: Mapping[Shape, int]
    """Micro-batches of one rank by shape."""
    elapsed_s: float = 0.0
    """Wall seconds since the start."""
    flops_before: int | Absent = 0
    """What one rank's earlier models have spent, of whose batches none is in ``batches``."""
    unseen_steps: int = 0
    """Steps in which a backward ran and no batch was seen: what they used is in no count."""
    lost_steps: int = 0
    """Steps that restarts threw away: made and spent, but no progress."""


class Budget(NamedTuple):
    """What the user means to spend: one quantity of tokens, steps, flops or hours."""

    kind: str
    amount: float


class Meter:
    """Knows the model, the peak and the number of ranks; gives rows of series.

    ``peak_tflops`` is the dense peak of one device in TFLOP/s for the dtype that runs, or why it is not known.
    """

    def __init__(
        self,
        shape: ModelShape | Absent,
        ranks: int = 1,
        peak_tflops: float | Absent = Absent("the peak of this device is not known; give --peak-tflops"),  # noqa: B008
        headline: str = HEADLINE,
        budget: Budget | None = None,
    ) -> None:
        self.shape = shape
        self.ranks = ranks
        self.peak_tflops = peak_tflops
        self.headline = headline
        self.budget = budget
        self.counted = Counted()
        self.recompute: str | None = None
        """What the model is seen to recompute, a name of flops.executed.RECOMPUTED; None where nothing tells."""
        self.traffic: Traffic | Absent = Absent("the bytes of the model's weights are not known")
        self.pace = Pace()
        self._known: dict[tuple[str, Shape], int | Absent] = {}

    def reshape(self, shape: ModelShape | Absent) -> None:
        """Go on with another shape of the same model."""
        self.shape = shape
        self._known.clear()

    def flops(self, convention: str, batches: Mapping[Shape, int]) -> int | Absent:
        """Give the training FLOPs of these micro-batches under a convention."""
        total = 0
        for batch, calls in batches.items():
            key = (convention, batch)
            count = self._known.get(key)
            if count is None:
                count = self._known[key] = self._flops_of_one(convention, batch)
                if len(self._known) > 1 << 16:
                    self._known.clear()
            if isinstance(count, Absent):
                return count
            total += count * calls
        return total

    def _flops_of_one(self, convention: str, batch: Shape) -> int | Absent:
        if isinstance(self.shape, Absent):
            return self.shape
        sequences, length, target = batch
        if not sequences:
            return 0
        seen = self.shape.batch_seen(sequences, length, target)
        return seen if isinstance(seen, Absent) else training_flops(convention, self.shape, seen)

    def executed(self, batches: Mapping[Shape, int]) -> int | float | Absent:
        """Give the FLOPs that these micro-batches execute, recomputation included: counted, else by the formula."""
        counted = self.counted.executed([(*shape, calls) for shape, calls in batches.items()])
        if not isinstance(counted, Absent) or self.recompute is None or isinstance(self.shape, Absent):
            return counted
        total = 0
        for shape, calls in batches.items():
            seen = self.shape.batch_seen(*shape) if shape[0] else Absent("an empty batch")
            flops = seen if isinstance(seen, Absent) else executed_flops(self.shape, seen, self.recompute)
            if isinstance(flops, Absent):
                return flops
            total += flops * calls
        return total

    def row(self, window: Window, totals: Totals, scale: tuple[int, int]) -> dict[str, float]:
        """Give the row to publish: names with prefix, finite values.

        ``scale`` is global tokens over this rank's tokens as a fraction (the number of ranks where they are equal):
        what this rank did, times the scale, is what the run did.
        """
        row: dict[str, float] = {"step": totals.steps}
        if not totals.unseen_steps:
            row["samples"] = _scaled(totals.samples, scale)
            if totals.tokens:
                row["tokens"] = _scaled(totals.tokens, scale)
        if totals.skipped:
            row["steps_skipped"] = totals.skipped
        none: int | Absent = 0 if totals.flops_before else Absent("no batch was seen")
        spent = self.flops(self.headline, totals.batches) if totals.batches else none
        if totals.unseen_steps:
            spent = Absent("the batches of some steps were not seen")
        if not isinstance(spent, Absent) and not isinstance(totals.flops_before, Absent):
            row["flops"] = _scaled(spent + totals.flops_before, scale)
        row.update(self._speed(window, scale))
        row.update(self._budget(row, totals))
        row.update(time_shares(window.seconds))
        return {PREFIX + name: value for name, value in row.items() if math.isfinite(value)}

    def passes_over(self, window: Window) -> bool:
        """Let the window count for the time left, without a row of it; False for one in which no step ended."""
        if window.steps < 1 or window.rate_s <= 0:
            return False
        self.pace.add(window.steps, window.rate_s)
        return True

    def _speed(self, window: Window, scale: tuple[int, int]) -> dict[str, float]:
        if not self.passes_over(window):
            return {}
        row: dict[str, float] = {"step_time_s": window.rate_s / window.steps}
        factor = scale[0] / scale[1]
        tokens = sum(b * t * calls for (b, t, _), calls in window.rate_batches.items())
        samples = sum(b * calls for (b, _, _), calls in window.rate_batches.items())
        if tokens:
            row["tokens_per_s"] = tokens * factor / window.rate_s
            row["tokens_per_s_per_gpu"] = row["tokens_per_s"] / self.ranks
        if samples:
            row["samples_per_s"] = samples * factor / window.rate_s
        if not window.rate_batches:
            return row
        for convention in CONVENTIONS:
            flops = self.flops(convention, window.rate_batches)
            if isinstance(flops, Absent):
                continue
            per_device = flops * factor / window.rate_s / self.ranks / 1e12
            if convention == self.headline:
                row["tflops_per_gpu"] = per_device
                row["tflops"] = per_device * self.ranks
                intensity = model_intensity(flops, self._fewest_bytes(window))
                if not isinstance(intensity, Absent):
                    row["intensity/model"] = intensity
            if not isinstance(self.peak_tflops, Absent):
                row["mfu/" + convention] = 100.0 * per_device / self.peak_tflops
        if "mfu/" + self.headline in row:
            row["mfu_pct"] = row["ladder/6_mfu"] = row["mfu/" + self.headline]
        executed = self.executed(window.rate_batches)
        if not isinstance(executed, Absent) and not isinstance(self.peak_tflops, Absent):
            hfu = 100.0 * executed * factor / window.rate_s / self.ranks / 1e12 / self.peak_tflops
            row["hfu_pct"] = row["ladder/5_hfu"] = hfu
        return row

    def _fewest_bytes(self, window: Window) -> int | Absent:
        """Give the bytes that the ranks of the window moved at the least in its steps."""
        if isinstance(self.traffic, Absent):
            return self.traffic
        micro_batches = sum(calls for (sequences, _, _), calls in window.rate_batches.items() if sequences)
        return self.traffic.fewest_bytes(micro_batches, window.steps * window.ranks)

    def _budget(self, row: Mapping[str, float], totals: Totals) -> dict[str, float]:
        """Progress, FLOPs required and time left, where the budget's own quantity is known."""
        if self.budget is None:
            return {}
        done = {
            "tokens": row.get("tokens"),
            "steps": totals.steps,
            "flops": row.get("flops"),
            "hours": totals.elapsed_s / 3600,
        }.get(self.budget.kind)
        if not done or self.budget.amount <= 0:
            return {}
        kept = totals.steps
        if totals.lost_steps and self.budget.kind != "hours":
            kept -= totals.lost_steps
            done *= kept / totals.steps
        share = done / self.budget.amount
        if not share:
            return {}
        told: dict[str, float] = {"progress_pct": min(100.0, 100.0 * share)}
        if row.get("flops"):
            told["flops_required"] = row["flops"] * (kept / totals.steps if totals.steps else 1) / share
        if self.budget.kind == "hours":
            told["eta_s"] = max(0.0, self.budget.amount * 3600 - totals.elapsed_s)
            return told
        left = self.pace.left(max(0.0, kept / share - kept))
        if left is not None:
            told["eta_s"] = left.seconds
            if left.plus_minus_s is not None:
                told["eta_plus_minus_s"] = left.plus_minus_s
        return told


def time_shares(seconds: Mapping[str, float]) -> dict[str, float]:
    """Give percent by kind that was observed; the parts add up to 100. Empty when no time has passed."""
    whole = sum(seconds.values())
    if whole <= 0:
        return {}
    return {"time/" + kind: 100.0 * seconds[kind] / whole for kind in TIME_KINDS if kind in seconds}


def _scaled(count: int, scale: tuple[int, int]) -> int:
    """Give count x scale as a whole number; exact wherever the scale is one."""
    return count * scale[0] // scale[1]


def parse_budget(options: Mapping[str, Any]) -> Budget | None:
    """Take the first budget named in the options, as ``budget_tokens``, ``budget_steps``, ``_flops``, ``_hours``."""
    for kind in BUDGET_KINDS:
        amount = options.get("budget_" + kind)
        if amount:
            return Budget(kind, float(amount))
    return None
