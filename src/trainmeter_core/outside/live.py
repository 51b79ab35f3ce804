"""The run as it stands now, over all ranks of this node: rows of series for files, boards and the progress line."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trainmeter_core.flops.counted import Counted, counted_from
from trainmeter_core.meter import Budget, Meter, Totals, Window
from trainmeter_core.readings import Absent
from trainmeter_core.restarts import Life, Lives, lost_steps
from trainmeter_core.series import CUMULATIVE, PREFIX, TIME_KINDS
from trainmeter_core.shape_from import shape_read
from trainmeter_core.weight_traffic import traffic_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trainmeter_core.run_record import RunRecord

Shape = tuple[int, int, int]


@dataclass
class Sums:
    """What some processes did, or one."""

    steps: int = 0
    skipped: int = 0
    tokens: int = 0
    samples: int = 0
    unseen: int = 0
    batches: dict[Shape, int] = field(default_factory=dict)

    def add(self, more: Sums, *, steps: bool = True) -> None:
        """Add what others did; of ranks that make the same steps these are counted once."""
        if steps:
            self.steps += more.steps
            self.skipped += more.skipped
        self.tokens += more.tokens
        self.samples += more.samples
        self.unseen += more.unseen
        for shape, calls in more.batches.items():
            self.batches[shape] = self.batches.get(shape, 0) + calls


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
        self._elapsed_before = 0.0
        self._elapsed: dict[int, float] = {}
        """Seconds of each process of the leader's rank."""
        self._ranks: set[int] = set()
        self._all = Sums()
        self._earlier_parts = Sums()
        self._by_life: dict[tuple[int, int], Sums] = {}
        """What each process of this part of the run did, by rank and process id."""
        self._window_steps = 0
        self._window_s: dict[int, float] = {}
        self._window_batches: dict[Shape, int] = {}
        self._seconds: dict[str, float] = {}
        self._kinds = set(TIME_KINDS) - {"data_wait"}
        self._parts = 1
        self._lives: dict[int, Lives] = {}
        self._known_lost: int | None = 0
        """Steps that restarts threw away; None where they are to be worked out anew."""
        self._newest = 0.0
        """When the newest process began."""
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
        known = Sums(first.steps, first.skipped)
        self._elapsed_before = first.wall_s
        for each in totals:
            if isinstance(each.tokens, Absent) or isinstance(each.samples, Absent):
                known.unseen += 1
                continue
            known.tokens += each.tokens
            known.samples += each.samples
        if not isinstance(record.world_size, Absent):
            self.world_size = max(record.world_size, len(totals))
        for *shape, calls in record.batches:
            known.batches[shape[0], shape[1], shape[2]] = calls
        self._earlier_parts = known
        self._all.add(known)
        if isinstance(record.model, dict):
            self.model(self._leader, record.model)
        self._known_lost = None

    def note(self, record: Mapping[str, Any]) -> None:
        """A process began to train, or saved a checkpoint, or another command went on with the run."""
        kind = record.get("type")
        try:
            if kind == "resumed":
                self._elapsed = {0: self._of_one_line(self._elapsed)}
                self._window_s = {0: self._of_one_line(self._window_s)}
                self._by_life.clear()
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
            life.parent, life.program = int(record.get("parent", 0)), int(record.get("program", 0))
            life.made_before, life.loads = record.get("made_before"), record.get("loads")
            life.loaded = [str(mark) for mark in record.get("loaded", ())]
        except (KeyError, TypeError, ValueError):
            # A side file of another version: the run log keeps the line.
            return
        self._known_lost = None

    def _life(self, rank: int, pid: int) -> Life:
        return self._lives.setdefault(rank, Lives()).of(self._parts, pid)[0]

    def _lost(self) -> int:
        if self._known_lost is None:
            lost = lost_steps(self._lives.values()).steps
            self._known_lost = 0 if isinstance(lost, Absent) else lost
        return min(self._known_lost, self._all.steps)

    def steps(self, rank: int, world_size: int, fields: dict[str, Any], pid: int = 0, end: float = 0.0) -> None:
        """Add a window of one rank that ended then, as the drain read it. The lowest rank's clock is the run's."""
        life = self._life(rank, pid)
        life.lasted(end, fields["n"], skipped=fields["skipped"], startup=fields["startup"])
        self._newest = max(self._newest, life.started)
        if life.started < self._newest and len(self._lives[rank].by_process) > 1:  # told after one that took its place
            self._known_lost = None
        self._ranks.add(rank)
        self.world_size = max(self.world_size, world_size, len(self._ranks))
        if self._leader is None or rank < self._leader:
            self._leader = rank
        shapes = {(shape[0], shape[1], shape[2]): calls for *shape, calls in fields["batches"]}
        did = Sums(
            fields["n"],
            fields["skipped"],
            fields["tokens"] or 0,
            fields["samples"] or 0,
            fields.get("unseen", 0),
            shapes,
        )
        self._all.add(did, steps=rank == self._leader)
        self._by_life.setdefault((rank, pid), Sums()).add(did)
        if not fields["startup"]:
            for shape, calls in shapes.items():
                self._window_batches[shape] = self._window_batches.get(shape, 0) + calls
        if rank != self._leader:
            return
        self._elapsed[pid] = self._elapsed.get(pid, 0.0) + fields["wall_s"]
        for kind, seconds in fields["time"].items():
            if seconds is not None:
                self._seconds[kind] = self._seconds.get(kind, 0.0) + seconds
                self._kinds.add(kind)
        if not fields["startup"] and fields["n"]:
            self._window_steps += fields["n"]
            self._window_s[pid] = self._window_s.get(pid, 0.0) + fields["wall_s"]

    def _of_one_line(self, seconds: Mapping[int, float]) -> float:
        """Add up seconds by process of the leader's rank: of those that are at work at once the most counts."""
        if len(seconds) < 2 or self._leader not in self._lives:  # noqa: PLR2004 - a single process
            return sum(seconds.values())
        lines = [{life.pid for life in line if life.part == self._parts} for line in self._lives[self._leader].lines()]
        of_earlier_parts = sum(spent for pid, spent in seconds.items() if not any(pid in line for line in lines))
        return of_earlier_parts + max(sum(seconds.get(pid, 0.0) for pid in line) for line in lines)

    def before(self, rank: int, pid: int, gone: Callable[[int], bool]) -> dict[str, float | None]:
        """Give the sums that the run had when a process began, by series name; None for one that is not known.

        They are those of the earlier parts and of the processes that had ended by then; `gone` tells that of a process
        id. Empty where nothing came before. Children that one program makes may be trainings that have nothing to do
        with each other: one that goes on from nothing has none before it.
        """
        life = self._life(rank, pid)
        earlier = [who for who in self._by_life if who != (rank, pid) and gone(who[1])]
        sums = Sums()
        sums.add(self._earlier_parts)
        leader = min((each for each, _ in earlier), default=0)
        for each, number in earlier:
            other = self._life(each, number)
            sibling = life.program != pid and life.program == other.program and not self._goes_on(life)
            if life.follows(other) and not sibling:
                sums.add(self._by_life[each, number], steps=each == leader)
        return self._told(sums)

    def before_this_part(self) -> dict[str, float | None]:
        """Give those that the run had when this command went on with it."""
        return self._told(self._earlier_parts)

    def _told(self, sums: Sums) -> dict[str, float | None]:
        if not (sums.steps or sums.skipped or sums.batches):
            return {}
        totals = Totals(sums.steps, sums.skipped, sums.tokens, sums.samples, sums.batches, unseen_steps=sums.unseen)
        row = self._meter_now().row(Window(0, 0.0, {}, {}), totals, self._scale())
        return {name: row.get(PREFIX + name, 0 if name == "steps_skipped" else None) for name in CUMULATIVE}

    def _goes_on(self, life: Life) -> bool:
        saved = {mark for lives in self._lives.values() for each in lives.by_process.values() for mark, _ in each.saves}
        return bool(life.made_before) or not saved.isdisjoint(life.loaded)

    @property
    def lost(self) -> int:
        """Steps that restarts threw away, as far as that is known and they are no progress towards the budget."""
        return 0 if self._budget is not None and self._budget.kind == "hours" else self._lost()

    @property
    def local_ranks(self) -> int:
        """Ranks of this node; those of other nodes are taken to do what these do."""
        return max(1, len(self._ranks))

    def row(self) -> dict[str, float] | None:
        """Give the row over the steps since the last one, or None when no whole step is new."""
        if not self._window_steps:
            return None
        meter = self._meter_now()
        known = self._all
        totals = Totals(
            known.steps, known.skipped, known.tokens, known.samples, known.batches,
            self._elapsed_before + self._of_one_line(self._elapsed),
            unseen_steps=known.unseen, lost_steps=self._lost(),
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
        rate_s = self._of_one_line(self._window_s)
        window = Window(self._window_steps, rate_s, self._window_batches, seconds, ranks)
        self._window_steps, self._window_s, self._window_batches, self._seconds = 0, {}, {}, {}
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
