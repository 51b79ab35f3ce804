"""Everything known of one run, whatever it was read from: a run directory, a tracker, or the agent's own memory.

Memory does not grow with the run: sums, extremes and bounded tables only. A value not known is an `Absent`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Iterable, Iterator, Mapping, Sequence, Union

from .flops.counted import Counted
from .gpu_totals import SteadyGpus
from .readings import Absent
from .restarts import Lives, Lost, lost_steps
from .run_tables import BatchCounts, Loss, Statistics
from .series import TIME_KINDS

Text = Union[str, Absent]
Count = Union[int, Absent]
Number = Union[float, int, Absent]

UNKNOWN = Absent("not recorded")
LARGEST_READING = 1e300


@dataclass
class Identity:
    """Which run it is. `command` has its secrets taken out already; `started` is seconds since the epoch."""

    run_id: Text = UNKNOWN
    name: Text = UNKNOWN
    script: Text = UNKNOWN
    command: list[str] | Absent = UNKNOWN
    started: Number = UNKNOWN
    git_commit: Text = UNKNOWN
    git_dirty: bool | Absent = UNKNOWN


@dataclass
class Software:
    """Versions that ran, as the programs themselves name them."""

    python: Text = UNKNOWN
    torch: Text = UNKNOWN
    cuda: Text = UNKNOWN
    driver: Text = UNKNOWN
    trainmeter: Text = UNKNOWN
    packages: dict[str, str] = field(default_factory=dict)


@dataclass
class Hardware:
    """The devices of this run. `gpus` holds one name (SKU) per GPU of the job; an empty list is a run without one.

    `reference_mhz` is the SM clock at which the peak of the job's GPUs holds.
    """

    gpus: list[str] | Absent = UNKNOWN
    cpu: Text = UNKNOWN
    cpu_cores: Count = UNKNOWN
    memory_bytes: Count = UNKNOWN
    interconnect: Text = UNKNOWN
    reference_mhz: Number = UNKNOWN
    bandwidth_bytes_per_s: Number = UNKNOWN


@dataclass
class Options:
    """What the user asked of `tm`, or what a table gave in its place.

    `peak_tflops` is the dense peak of one device in TFLOP/s; `peak_source` is "user" for ``--peak-tflops``, else the
    table's row with its own source. Budgets are tokens, steps, FLOPs and hours; `budget_source` says who set it.
    """

    convention: Text = UNKNOWN
    peak_tflops: Number = UNKNOWN
    peak_source: Text = UNKNOWN
    peak_dtype: Text = UNKNOWN
    budget_tokens: Count = UNKNOWN
    budget_steps: Count = UNKNOWN
    budget_flops: Number = UNKNOWN
    budget_hours: Number = UNKNOWN
    budget_source: Text = UNKNOWN


@dataclass
class StepBlock:
    """Consecutive optimizer steps of one process, summed; the unit in which steps reach a record.

    `n` counts finished steps without the skipped ones; a block with neither is the tail after the last step. A count
    that is None was not seen; `unseen` says in how many steps a backward ran and no batch was. `time_s` is seconds by
    TIME_KINDS, None for a kind that could not be observed; what is missing up to `wall_s` is ``startup`` in a start-up
    block and ``other`` elsewhere. `batches` has entries of (sequences, sequence length, target length, calls).
    `startup` marks the process start to the first step.
    """

    n: int
    skipped: int = 0
    first: int | None = None
    last: int | None = None
    tokens: int | None = None
    samples: int | None = None
    micro_batches: int | None = None
    unseen: int = 0
    wall_s: float = 0.0
    time_s: Mapping[str, float | None] = field(default_factory=dict)
    batches: Sequence[Sequence[int]] = ()
    step_time_s: tuple[float, float] | None = None
    startup: bool = False


@dataclass
class RankTotals:
    """Sums of one rank over all its processes. Seconds are of the host's clock; steady is after the first step.

    `counts` is False for a rank that works on batches which another one counts.
    """

    world_size: Count = UNKNOWN
    local_rank: Count = UNKNOWN
    counts: bool = True
    processes: int = 0
    steps: int = 0
    skipped: int = 0
    first_step: Count = UNKNOWN
    last_step: Count = UNKNOWN
    tokens: Count = 0
    samples: Count = 0
    micro_batches: Count = 0
    startup_s: Number = UNKNOWN
    wall_s: float = 0.0
    steady_steps: int = 0
    steady_tokens: Count = 0
    steady_samples: Count = 0
    steady_wall_s: float = 0.0
    time_s: dict[str, float] = field(default_factory=lambda: dict.fromkeys(TIME_KINDS, 0.0))
    unseen_kinds: dict[str, bool] = field(default_factory=dict)
    shortest_step_s: Number = UNKNOWN
    longest_step_s: Number = UNKNOWN
    dropped_records: int = 0

    def add(self, block: StepBlock) -> None:
        """Add a block of steps; counts that were not seen make the sum Absent from then on."""
        steps = block.n + block.skipped
        self.steps += block.n
        self.skipped += block.skipped
        self.wall_s += block.wall_s
        self._add_time(block)
        if steps == 0:
            return
        if block.first is not None and isinstance(self.first_step, Absent):
            self.first_step = block.first
        if block.last is not None:
            self.last_step = block.last
        self.tokens = _plus(self.tokens, block.tokens, "tokens")
        self.samples = _plus(self.samples, block.samples, "samples")
        self.micro_batches = _plus(self.micro_batches, block.micro_batches, "micro-batches")
        if block.startup:
            self.startup_s = block.wall_s + (0.0 if isinstance(self.startup_s, Absent) else self.startup_s)
            return
        self.steady_steps += block.n
        self.steady_wall_s += block.wall_s
        self.steady_tokens = _plus(self.steady_tokens, block.tokens, "tokens")
        self.steady_samples = _plus(self.steady_samples, block.samples, "samples")
        if block.step_time_s is not None:
            low, high = block.step_time_s
            self.shortest_step_s = low if isinstance(self.shortest_step_s, Absent) else min(self.shortest_step_s, low)
            self.longest_step_s = high if isinstance(self.longest_step_s, Absent) else max(self.longest_step_s, high)

    def _add_time(self, block: StepBlock) -> None:
        told = 0.0
        for kind in TIME_KINDS:
            seconds = block.time_s.get(kind, 0.0)
            if seconds is None:
                self.unseen_kinds[kind] = True
                continue
            self.time_s[kind] += seconds
            told += seconds
        if block.wall_s > told:
            self.time_s["startup" if block.startup else "other"] += block.wall_s - told


def _plus(total: Count, more: int | None, what: str) -> Count:
    if isinstance(total, Absent):
        return total
    return Absent(what + " were not seen in every step") if more is None else total + more


@dataclass
class End:
    """How the run ended. Both code and signal are Absent while it goes on, or when `tm` itself was killed."""

    code: Count = UNKNOWN
    signal: Count = UNKNOWN
    seconds: Number = UNKNOWN


@dataclass
class Failure:
    """One site of ours that failed inside the user's process, how often, and its first message."""

    site: str
    count: int
    first: str


@dataclass(frozen=True)
class Noted:
    """What `tm` saw go wrong while the run went on: a stable code, "error", "warning" or "info", and one sentence."""

    code: str
    level: str
    sentence: str


@dataclass
class ReadingNotes:
    """What a reader met that it could not use; kept so that a passport can tell how complete its source was."""

    lines: int = 0
    junk_lines: int = 0
    unknown_records: int = 0
    torn_tail: bool = False


@dataclass
class RunRecord:
    """One run. `ranks` holds the totals per rank; `summed` holds totals over all ranks where a source has only these.

    `batches` and `steady_batches` are summed over the ranks seen. `counted` is what single micro-batches executed by
    torch's own count, recompute included. `gpus` is over the whole run, `steady_gpus` over its steady part.
    `last_seen` is seconds since the epoch of the newest record. A run that was resumed has several `parts`; the last
    one began at `part_started`, and the earlier ones took `seconds_before`. `lives` are the processes of each rank,
    `lost` the steps that restarts threw away where a source tells only that. `batch_ranks` work on one batch together.
    """

    identity: Identity = field(default_factory=Identity)
    software: Software = field(default_factory=Software)
    hardware: Hardware = field(default_factory=Hardware)
    options: Options = field(default_factory=Options)
    ranks: dict[int, RankTotals] = field(default_factory=dict)
    summed: RankTotals | None = None
    world_size: Count = UNKNOWN
    batch_ranks: int = 1
    model: dict[str, Any] | Absent = UNKNOWN
    shape_source: Text = UNKNOWN
    batches: BatchCounts = field(default_factory=BatchCounts)
    steady_batches: BatchCounts = field(default_factory=BatchCounts)
    counted: Counted = field(default_factory=Counted)
    spans: dict[str, Statistics] = field(default_factory=dict)
    losses: dict[str, Loss] = field(default_factory=dict)
    trackers: list[dict[str, Any]] = field(default_factory=list)
    node: dict[str, Statistics] = field(default_factory=dict)
    gpus: dict[str, dict[str, Statistics]] = field(default_factory=dict)
    steady_gpus: SteadyGpus = field(default_factory=SteadyGpus)
    noted: list[Noted] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    end: End = field(default_factory=End)
    last_seen: Number = UNKNOWN
    parts: int = 1
    part_started: Number = UNKNOWN
    seconds_before: float = 0.0
    lives: dict[int, Lives] = field(default_factory=dict)
    lost: Lost | None = None
    notes: ReadingNotes = field(default_factory=ReadingNotes)

    def rank(self, rank: int) -> RankTotals:
        """The totals of one rank, made on first use."""
        if rank not in self.ranks:
            self.ranks[rank] = RankTotals()
        return self.ranks[rank]

    def add_steps(self, rank: int, block: StepBlock) -> None:
        """Add a block of steps of one rank: its totals and the batches of the whole run."""
        self.rank(rank).add(block)
        self.batches.unseen_steps += block.unseen
        if not block.startup:
            self.steady_batches.unseen_steps += block.unseen
        for sequences, seq_len, target_len, calls in block.batches:
            self.batches.add(sequences, seq_len, target_len, calls)
            if not block.startup:
                self.steady_batches.add(sequences, seq_len, target_len, calls)

    @property
    def restarts(self) -> int:
        """How often a rank's process was started anew, of the rank with the most, or the run's command.

        A process that began while another of its rank was at work is no restart of that one.
        """
        if self.summed is not None:
            return max(self.parts, self.summed.processes) - 1
        anew = [self.parts - 1]
        for rank, totals in self.ranks.items():
            lives = self.lives.get(rank)
            beyond = totals.processes - (1 if lives is None else len(lives.by_process))
            anew.append(max(0, beyond) + (0 if lives is None else lives.restarts()))
        return max(anew)

    def steady_seconds(self) -> float:
        """Seconds after the first step, of the slowest rank; those that processes of one rank shared count once."""
        if self.summed is not None:
            return self.summed.steady_wall_s
        seconds = [
            totals.steady_wall_s - (self.lives[rank].shared_s() if rank in self.lives else 0.0)
            for rank, totals in self.ranks.items()
        ]
        return max(0.0, *seconds) if seconds else 0.0

    def seconds_of_part(self) -> float | None:
        """Seconds of the newest part: told by its end, else up to the last record; None where neither is known."""
        if not isinstance(self.end.seconds, Absent):
            return self.end.seconds
        started, seen = self.identity.started if self.parts == 1 else self.part_started, self.last_seen
        if isinstance(started, Absent) or isinstance(seen, Absent) or seen < started:
            return None
        return seen - started

    def lost_steps(self) -> Lost:
        """The steps that restarts threw away."""
        if self.lost is None and not self.lives and any(totals.processes > 1 for totals in self.totals()):
            return Lost(UNKNOWN)
        return lost_steps(self.lives.values()) if self.lost is None else self.lost

    def batch_groups(self) -> tuple[Count, int]:
        """Ranks that count batches, for themselves or also for others: of all ranks, and of those seen."""
        world_size = self.world_size
        everyone = world_size if isinstance(world_size, Absent) else max(1, world_size // self.batch_ranks)
        return everyone, sum(totals.counts for totals in self.ranks.values())

    def totals(self) -> Iterable[RankTotals]:
        """The totals to sum over: those of all ranks seen, or the one sum that the source has."""
        return [self.summed] if self.summed is not None else list(self.ranks.values())


def observe(table: dict[str, Statistics], readings: Mapping[str, Any], limit: int = 4096) -> None:
    """Add one sample of named readings to a table of statistics; nested names are joined with "/".

    Only finite numbers count; names beyond `limit` are left out, so that a table stays bounded.
    """
    _observe(table, readings, "", limit)


def include(table: dict[str, Statistics], sums: Mapping[str, Statistics], limit: int = 4096) -> None:
    """Add to a table what other tables of the same readings come to; names beyond `limit` are left out."""
    for name, each in sums.items():
        if name in table or len(table) < limit:
            table.setdefault(name, Statistics()).include(each)


def _observe(table: dict[str, Statistics], readings: Mapping[str, Any], prefix: str, limit: int) -> None:
    # Written out for speed: a day's log holds millions of readings.
    for name, value in readings.items():
        if type(value) is not float and type(value) is not int:
            if isinstance(value, Mapping):
                _observe(table, value, prefix + str(name) + "/", limit)
            continue
        if not -LARGEST_READING < value < LARGEST_READING:
            continue
        full = prefix + name if prefix else name
        known = table.get(full)
        if known is None:
            if len(table) >= limit:
                continue
            known = table[full] = Statistics()
        known.count += 1
        known.total += value
        if value < known.low:
            known.low = float(value)
        if value > known.high:
            known.high = float(value)


def flat(readings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Readings by name, nested names joined with "/"; numbers that a counter can have, and nothing else."""
    for name, value in readings.items():
        if isinstance(value, Mapping):
            yield from flat(value, prefix + str(name) + "/")
        elif isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < LARGEST_READING:
            yield prefix + str(name), float(value)
