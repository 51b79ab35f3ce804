"""The run as it stands now, over all ranks of this node: rows of series for files, boards and the progress line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainmeter_core.flops.counted import Counted, counted_from
from trainmeter_core.meter import Budget, Meter, Totals, Window
from trainmeter_core.readings import Absent
from trainmeter_core.restarts import Life, Lives, lost_steps
from trainmeter_core.series import TIME_KINDS
from trainmeter_core.shape_from import shape_read
from trainmeter_core.weight_traffic import traffic_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainmeter_core.run_record import RunRecord

Shape = tuple[int, int, int]


class LiveRun:
    """Adds up the windows of every rank; `row` gives what is new since the last row, for the whole run."""

    def __init__(self, *, convention: str | None, peak_tflops: float | None, budget: Budget | None) -> None:
        self.world_size = 1
        self.description: dict[str, Any] | None = None
        self._described_by: int | None = None
        self._convention = convention
        self.peak_tflops = peak_tflops
        self.devices_per_rank = 1.0
        self._budget = budget
        self._meter: Meter | None = None
        self._counted = Counted()
        self._leader: int | None = None
        self._elapsed = 0.0
        self._ranks: set[int] = set()
        self._steps = 0
        self._skipped = 0
        self._tokens = 0
        self._samples = 0
        self._unseen = 0
        self._batches: dict[Shape, int] = {}
        self._window_steps = 0
        self._window_s = 0.0
        self._window_batches: dict[Shape, int] = {}
        self._seconds: dict[str, float] = {}
        self._kinds = set(TIME_KINDS) - {"data_wait"}
        self._parts = 1
        self._lives: dict[int, Lives] = {}
        self._lost = 0
        self._batch_ranks = 1
        self._counting: dict[int, bool] = {}
        """Ranks that said whether they count the batches they work on."""

    def model(self, rank: int, description: dict[str, Any]) -> None:
        """The agent of a rank described its model. The lowest rank's stands, its newest one: a model may take over."""
        if self._described_by is None or rank <= self._described_by:
            self._described_by = rank
            self.description = description
            self._meter = None

    def counted(self, record: dict[str, Any]) -> None:
        """An agent counted what a training pass executes."""
        try:
            self._counted = counted_from(record)
        except (KeyError, TypeError, ValueError):
            # A side file of another version: the run log keeps the line, and the passport tells.
            return
        self._meter = None

    def budget(self, budget: Budget, *, by_user: bool = False) -> None:
        """The program's own framework told its goal; one that the user gave to `tm` stands, his newest one."""
        if self._budget is None or by_user:
            self._budget = budget
            if self._meter is not None:
                self._meter.budget = budget

    def go_on_from(self, record: RunRecord) -> None:
        """The sums of the run's earlier parts. A count of theirs that is not known leaves it unknown."""
        if not record.ranks:
            return
        totals = list(record.ranks.values())
        self._parts, self._lives = record.parts + 1, record.lives
        self._batch_ranks = record.batch_ranks
        self._counting = {rank: totals.counts for rank, totals in record.ranks.items()}
        self._ranks = set(record.ranks)
        self._leader = min(record.ranks)
        first = record.ranks[self._leader]
        self._steps, self._skipped, self._elapsed = first.steps, first.skipped, first.wall_s
        for each in totals:
            if isinstance(each.tokens, Absent) or isinstance(each.samples, Absent):
                self._unseen += 1
                continue
            self._tokens += each.tokens
            self._samples += each.samples
        if not isinstance(record.world_size, Absent):
            self.world_size = max(record.world_size, len(totals))
        for *shape, calls in record.batches:
            self._batches[shape[0], shape[1], shape[2]] = calls
        self._note_lost()

    def note(self, record: Mapping[str, Any]) -> None:
        """A process began to train, or saved a checkpoint, or another command went on with the run."""
        kind = record.get("type")
        try:
            if kind == "resumed":
                self._parts += 1
                return
            if kind == "parallel":
                self._batch_ranks = max(1, int(record["batch_ranks"]))
                self._counting[int(record["rank"])] = bool(record["counts"])
                return
            life = self._life(int(record["rank"]), int(record["pid"]))
            if kind == "saved":
                life.saved(str(record["mark"]), int(record["step"]))
                return
            life.started = float(record.get("started", 0.0))
            life.made_before, life.loads = record.get("made_before"), record.get("loads")
            life.loaded = [str(mark) for mark in record.get("loaded", ())]
        except (KeyError, TypeError, ValueError):
            # A side file of another version: the run log keeps the line.
            return
        self._note_lost()

    def _life(self, rank: int, pid: int) -> Life:
        return self._lives.setdefault(rank, Lives()).of(f"{self._parts}.{pid}")[0]

    def _note_lost(self) -> None:
        lost = lost_steps(self._lives.values()).steps
        self._lost = 0 if isinstance(lost, Absent) else lost

    def steps(self, rank: int, world_size: int, fields: dict[str, Any], pid: int = 0) -> None:
        """Add a window of one rank, as the drain read it. The lowest rank's clock is the run's."""
        self._life(rank, pid).steps += fields["n"]
        self._ranks.add(rank)
        self.world_size = max(self.world_size, world_size, len(self._ranks))
        if self._leader is None or rank < self._leader:
            self._leader = rank
        self._tokens += fields["tokens"] or 0
        self._samples += fields["samples"] or 0
        self._unseen += fields.get("unseen", 0)
        for *shape, calls in fields["batches"]:
            key = (shape[0], shape[1], shape[2])
            self._batches[key] = self._batches.get(key, 0) + calls
            if not fields["startup"]:
                self._window_batches[key] = self._window_batches.get(key, 0) + calls
        if rank != self._leader:
            return
        self._elapsed += fields["wall_s"]
        self._steps += fields["n"]
        self._skipped += fields["skipped"]
        for kind, seconds in fields["time"].items():
            if seconds is not None:
                self._seconds[kind] = self._seconds.get(kind, 0.0) + seconds
                self._kinds.add(kind)
        if not fields["startup"] and fields["n"]:
            self._window_steps += fields["n"]
            self._window_s += fields["wall_s"]

    @property
    def local_ranks(self) -> int:
        """Ranks of this node; those of other nodes are taken to do what these do."""
        return max(1, len(self._ranks))

    def row(self) -> dict[str, float] | None:
        """Give the row over the steps since the last one, or None when no whole step is new."""
        if not self._window_steps:
            return None
        meter = self._meter_now()
        totals = Totals(
            self._steps, self._skipped, self._tokens, self._samples, self._batches, self._elapsed,
            unseen_steps=self._unseen, lost_steps=min(self._lost, self._steps),
        )  # fmt: skip
        return meter.row(self._close_window(), totals, self._scale())

    def _scale(self) -> tuple[int, int]:
        """Batches of all ranks over those of this node's."""
        if self._batch_ranks == 1:
            return self.world_size, self.local_ranks
        counting = sum(self._counting.get(rank, True) for rank in self._ranks)
        return max(1, self.world_size // self._batch_ranks), max(1, counting)

    def pass_over(self) -> bool:
        """Go on as after a row that nobody needs; False when there would have been none."""
        if not self._window_steps:
            return False
        self._meter_now().passes_over(self._close_window())
        return True

    def _close_window(self) -> Window:
        seconds = {kind: self._seconds.get(kind, 0.0) for kind in TIME_KINDS if kind in self._kinds}
        ranks = self._scale()[1]
        window = Window(self._window_steps, self._window_s, self._window_batches, seconds, ranks)
        self._window_steps, self._window_s, self._window_batches, self._seconds = 0, 0.0, {}, {}
        return window

    def _meter_now(self) -> Meter:
        if self._meter is None:
            shape: Any = Absent("the model was not seen")
            if self.description is not None:
                found = shape_read(self.description)
                shape = found if isinstance(found, Absent) else found[0]
            meter = Meter(shape, ranks=self.world_size, budget=self._budget)
            meter.counted = self._counted
            recompute = (self.description or {}).get("recompute")
            meter.recompute = recompute if isinstance(recompute, str) else None
            if self.description is not None:
                meter.traffic = traffic_of(self.description, meter.shape)
            if self._convention:
                meter.headline = self._convention
            if self.description is None:
                return meter
            self._meter = meter
        if self.peak_tflops:
            self._meter.peak_tflops = self.peak_tflops
        self._meter.ranks = max(1, round(self.world_size * self.devices_per_rank))
        return self._meter
