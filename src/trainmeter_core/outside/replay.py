"""The series of a finished run once more, row by row, from its log; memory does not grow with the run."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from trainmeter_core.meter import Budget, parse_budget
from trainmeter_core.runlog.format import LOG_FILE, RUN_FILE
from trainmeter_core.runlog.read import lines
from trainmeter_core.series import PREFIX
from trainmeter_core.version import __version__

from .gpu_series import PLAIN, SUMMED
from .live import LiveRun
from .newest import PUBLISHED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


_HEAD_BYTES = 4096


class Row(NamedTuple):
    """The series at one optimizer step; `time` is seconds since the epoch."""

    step: int
    time: float
    series: dict[str, float]


def size_of(directory: Path) -> int:
    """Bytes of log to replay, for a progress bar."""
    try:
        return (directory / LOG_FILE).stat().st_size
    except FileNotFoundError:
        return 0


class RunRows:
    """The rows of a run, once and in order, `every_s` seconds of the run in each; `at_byte` is told how far the log is.

    `key` is another one for other rows: of another run, another version, or of a log that has grown since.
    """

    def __init__(self, directory: Path, every_s: float = 1.0, at_byte: Callable[[int], None] = lambda _: None) -> None:
        self._directory = directory
        self._every_s = every_s
        self._at_byte = at_byte
        self._skip = 0
        seen = hashlib.sha256(repr((__version__, every_s, size_of(directory))).encode())
        for name in (RUN_FILE, LOG_FILE):
            with contextlib.suppress(FileNotFoundError), (directory / name).open("rb") as file:
                seen.update(file.read(_HEAD_BYTES))
        self.key = seen.hexdigest()

    def skip(self, count: int) -> None:
        """Pass over the first rows, without working them out."""
        self._skip = count

    def __iter__(self) -> Iterator[Row]:
        """Give the rows. Raises FileNotFoundError without a log."""
        return rows(self._directory, self._every_s, self._at_byte, self._skip)


def rows(
    directory: Path, every_s: float = 1.0, at_byte: Callable[[int], None] = lambda _: None, skip: int = 0
) -> Iterator[Row]:
    """Give the rows that the run published or would have published, `every_s` seconds of the run in each.

    A step is in exactly one row; what the node's sampler read last stands beside it. `at_byte` is told how far the log
    is. Lines that cannot be read are left out, and the first `skip` rows. Raises FileNotFoundError without a log.
    """
    about = _object((directory / RUN_FILE).read_bytes()) if (directory / RUN_FILE).is_file() else None
    replay = _Replay(about or {})
    due = -math.inf
    for line, end in lines(directory / LOG_FILE):
        record = None if line is None else _object(line)
        if record is None:
            continue
        try:
            stepped = replay.apply(record)
            t = float(record["t"])
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):  # of another version, or damaged
            continue
        if not stepped or t < due:
            continue
        if skip:
            if replay.live.pass_over():
                due = t + every_s
                skip -= 1
                at_byte(end)
        else:
            row = replay.row(t)
            if row is not None:
                due = t + every_s
                at_byte(end)
                yield row
    row = None if skip else replay.row(replay.last)
    if row is not None:
        yield row


class _Replay:
    def __init__(self, about: dict[str, Any]) -> None:
        convention, peak = about.get("convention"), about.get("peak_tflops")
        self._peak_given = peak is not None
        self.live = LiveRun(convention=convention, peak_tflops=peak, budget=parse_budget(about))
        self._node: dict[str, float] = {}
        self._gpus: dict[str, float] = {}
        self.last = 0.0

    def apply(self, record: dict[str, Any]) -> bool:
        """Apply one record; True for a block of steps."""
        kind = record.get("type")
        if kind == "steps":
            self.last = float(record["t"])
            self.live.steps(record["rank"], self.live.world_size, record, record["pid"], self.last)
            return True
        if kind in ("process", "saved", "parallel", "resumed"):
            self.live.note(record)
        if kind == "resumed" and (given := parse_budget(record)) is not None:
            self.live.budget(given, by_user=True)
        if kind == "process":
            self.live.world_size = max(self.live.world_size, record["world_size"])
        elif kind == "model" and isinstance(record["description"], dict):
            self.live.model(record["rank"], record["description"])
        elif kind == "budget":
            self.live.budget(Budget("steps", record["budget_steps"]))
        elif kind == "hardware":
            self._hardware(record)
        elif kind == "node":
            readings = record["readings"]
            self._node.update({PREFIX + name: readings[name] for name in PUBLISHED if name in readings})
        elif kind == "node_sums":
            means = _means(record["readings"])
            self._node.update({PREFIX + name: means[name] for name in PUBLISHED if name in means})
        elif kind == "gpu":
            self._gpus = dict(_over_gpus(list(record["gpus"].values())))
        elif kind == "gpu_sums":
            self._gpus = dict(_over_gpus([_means(gpu) for gpu in record["gpus"].values()]))
        return False

    def _hardware(self, record: dict[str, Any]) -> None:
        if not self._peak_given and record.get("peak_tflops"):
            self.live.peak_tflops = float(record["peak_tflops"])
        if record.get("gpus"):
            self.live.devices_per_rank = len(record["gpus"]) / self.live.local_ranks

    def row(self, t: float) -> Row | None:
        try:
            found = self.live.row()
            return None if found is None else Row(int(found[PREFIX + "step"]), t, {**self._node, **self._gpus, **found})
        except (LookupError, TypeError, ValueError, ArithmeticError):  # sizes that no batch has, counts that are none
            return None


def _means(sums: dict[str, list[float]]) -> dict[str, float]:
    """Means of samples that were merged; of the energy, which only grows, the newest."""
    return {
        name: high if name == "energy_j" else total / count
        for name, (count, total, _low, high) in sums.items()
        if count
    }


def _over_gpus(gpus: list[dict[str, float]]) -> Iterator[tuple[str, float]]:
    """The series of the job's GPUs: means of what is known, sums of energies."""
    for name, reading in _GPU_SERIES.items():
        values = [float(gpu[reading]) for gpu in gpus if reading in gpu]
        if values:
            yield PREFIX + name, sum(values) if name in SUMMED else sum(values) / len(values)


_GPU_SERIES = {
    "ladder/1_gpu_util": "gpu_util_pct",
    "ladder/2_sm_active": "sm_active_pct",
    "ladder/3_tensor_active": "tensor_active_pct",
    "ladder/4_ofu": "ofu_pct",
    "gpu/dram_active": "dram_active_pct",
    **PLAIN,
}


_DECODER = json.JSONDecoder()


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value = _DECODER.decode(line.decode())
    except (ValueError, RecursionError):  # no JSON, or thousands of brackets
        return None
    return value if isinstance(value, dict) else None
