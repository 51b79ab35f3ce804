"""What a tracker adapter can do: the hooks that trainmeter calls, and where, how often and on which thread.

An adapter is a module with functions marked `@hookimpl`, registered through the entry-point group ``trainmeter``.
It implements what it needs. A hook that raises costs only its own adapter: the failure is counted and reported at the
end of the run. Wrapper implementations are refused, because each adapter is called alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping, NamedTuple, Protocol

from ._pluggy import pluggy

if TYPE_CHECKING:
    from types import ModuleType

    from .readings import Absent

PROJECT = "trainmeter"
GROUP = "trainmeter"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

Undo = Callable[[], None]
"""Takes a tap out again: afterwards every patched object is, by identity, what it was."""


class Check(NamedTuple):
    """One line of `tm doctor`."""

    name: str
    ok: bool
    detail: str
    advice: str = ""


class Option(NamedTuple):
    """An option of `tm` for a run. What the user gives is an environment variable of the trainer."""

    name: str
    """As it is written, with the adapter's name in it: ``--wandb-something``."""
    variable: str
    help: str
    """At most one line."""
    metavar: str = ""
    """What its value is called; "" for a flag, which sets the variable to 1."""


class Delivered(NamedTuple):
    """What became of series that a run could not send while it lasted."""

    sent: int
    """Rows that the tracker took now."""
    left: int
    """Rows that still wait."""
    place: str
    """The run in the tracker, for people."""
    reason: str = ""
    """Why rows are left."""


class UsersData(NamedTuple):
    """What a program itself logged to one run of a tracker, for `tm selftest`."""

    name: str
    """The run, by the same name whenever the same program is run: ``TensorBoard runs/*, run 1``."""
    files: tuple[str, ...]
    """The files and folders that hold it, relative to the directory that was looked into."""
    content: Mapping[str, Any]
    """What the user logged, comparable with ==, by names for people: without ours, without clocks and random ids."""


class AgentFace(Protocol):
    """What an adapter may ask of the agent inside the trainer. Every method is cheap and never raises."""

    row_interval_s: float
    """A row is made at most once in so many seconds: who had one need not ask before."""

    def logging(self) -> Any:
        """A context manager around the user's own tracker call: its time is counted as ``time/logging``."""

    def steps_ended(self) -> int:
        """Optimizer steps of this process that have ended."""

    def observe(self, scalars: Mapping[str, float], step: int | None, after: int | None = None) -> None:
        """Tell which scalars the user logged (name to value) so that the passport can hold the losses.

        Those without "loss" in their names need not be told. `step` is the user's own, `after` how many steps had ended
        when they were logged, where that was earlier.
        """

    def before_passport(self, work: Callable[[], None]) -> None:
        """Call `work`, guarded, before a passport is made, for an adapter that observes later than the user logged."""

    def row(self, final: bool = False, reader: str = "") -> dict[str, float] | None:
        """The series to publish now, names with prefix, finite values only.

        A row is made at most once a second, and given once to each reader that asks by its own name; None when it had
        the newest one already. ``final`` waives the second.
        """

    def row_of_run(self, final: bool = False, reader: str = "") -> dict[str, float] | None:
        """As `row`, with sums that go on from those of the run's earlier processes, where it was restarted or resumed.

        For a tracker that keeps no such sums itself. A sum that is not known for all of them is left out. While `tm` is
        still to tell them, for a second or two after a restart, no row is due; a ``final`` one waits for that, two
        seconds at the most.
        """

    def counts(self) -> dict[str, float]:
        """The series of `series.CUMULATIVE` as they stand now, names with prefix; no row is taken by this."""

    def readings(self) -> dict[str, float]:
        """What `tm` reads of the GPUs and of the node now, by series name with prefix; empty without a `tm`."""

    def each_row(self, work: Callable[[], None]) -> None:
        """Call `work`, guarded, on the training thread after an optimizer step, at most once a second.

        For a tracker whose own calls cannot be tapped; `work` asks for the `row` itself.
        """

    def part(self) -> Any:
        """Begin a part of the process's training, for a tracker's run that is not its process's first.

        It is followed as long as it is held.
        """

    def passport(self, part: Any = None) -> dict[str, Any] | None:
        """The passport so far, as the JSON object that docs/passport.md describes; None before the first step.

        Of the whole process, or of the steps since a part began.
        """

    def run_directory(self) -> str:
        """Where `tm` keeps the run of this process; "" where there is none. Known a second after the first step."""

    def publishes_to(self, tracker: str, **where: str) -> None:
        """Tell, for `tm` and the run log, where the run can be looked at (log directory, run id, URL).

        Once per run, and once more where that is known better than at its first row.
        """

    def blocked(self, call: str, seconds: float, advice: str) -> None:
        """Tell how long the user's calls of one kind have held the training up so far.

        Where that is more than 5 % of the run, `tm` says so at the end: ``<call> took 31 % of the run: <advice>``.
        """

    def guard(self, site: str) -> Any:
        """A context manager that keeps every Exception of ours from the user's program.

        It counts them under the site's name and lets the site rest after a few.
        """


class LocalWriter(Protocol):
    """Writes a run's series for a viewer that needs no server, while the run goes on."""

    command: str
    """How to open what was written, as a shell command."""

    def write(self, row: Mapping[str, float], step: int, wall_time: float) -> None:
        """Write one row of series at an optimizer step, at a time in seconds since the epoch."""

    def close(self, passport_markdown: str | None, passport: Mapping[str, Any] | None = None) -> None:
        """Write the passport, for reading and as the object that it renders, flush and close."""


class Served(Protocol):
    """A viewer of a run, on loopback, in a process of its own."""

    url: str
    pid: int
    """Its process, for a user who ends it by hand."""

    def is_up(self) -> bool:
        """Whether it answers by now; returns at once."""

    def is_gone(self) -> bool:
        """Whether its process has ended."""

    def close(self) -> None:
        """End it; one that is to be kept is let go."""


class Hooks:
    """The specifications; pluggy reads their names and signatures."""

    @hookspec
    def tracker_modules(self) -> list[str]:  # type: ignore[empty-body]
        """Names of the modules whose import installs this adapter's tap.

        Process: trainer. Thread: the importing one. Rate: once. Returns: exact dotted names, never a pattern.
        """

    @hookspec
    def install_tap(self, module: ModuleType, agent: AgentFace) -> Undo:  # type: ignore[empty-body]
        """Tap the tracker's own calls, by attributes of its classes, right after its module was executed.

        Process: trainer. Thread: the importing one. Rate: once per module. Returns: the undo.
        """

    @hookspec
    def options(self) -> list[Option]:  # type: ignore[empty-body]
        """Options that `tm` shall take before the script, besides its own. The tracker is not imported for them.

        Process: tm. Thread: main. Rate: once, where a line has an option that is not tm's own, or asks for help.
        Returns: options.
        """

    @hookspec
    def environment(self, metrics_url: str, base: Mapping[str, str]) -> Mapping[str, str]:  # type: ignore[empty-body]
        """Variables that the user's command shall have besides its own, given what it would have without them.

        `metrics_url` is where `tm` serves the run's newest readings as Prometheus text under bare names; "" when it
        does not. Process: tm. Thread: main. Rate: once per run. Returns: only what is added or changed.
        """

    @hookspec
    def same_run(self, base: Mapping[str, str]) -> tuple[str, bool] | None:
        """By the command's environment: a name of the tracker's run that the program will write to.

        Process: tm. Thread: main. Rate: once per run. Returns: "tracker:…", the same for the same run, and whether the
        program means to go on with that run; None where the environment names no run.
        """

    @hookspec
    def finish(self, agent: AgentFace) -> None:
        """Publish the last row and the passport, in five seconds at the most, where the user's closing call never came.

        What could not be sent by then is left in the run directory for `deliver`.

        Process: trainer. Thread: main, at exit. Rate: once. Returns: nothing.
        """

    @hookspec(firstresult=True)
    def open_run(self, ref: str, server: str | None) -> Any | None:
        """Read a run from the tracker alone; `server` is the address that the user gave, where they gave one.

        Process: tm. Thread: main. Rate: once per command. Returns: a `run_record.RunRecord`, or None when the
        reference is not this tracker's. Raises `ValueError` with one clear line when it is, but cannot be read.
        """

    @hookspec(firstresult=True)
    def export(
        self, tracker: str, passport: Mapping[str, Any], target: Mapping[str, str], rows: Iterable[Any]
    ) -> str | None:
        """Write a finished run that another tracker, or none, has seen into this tracker, or what is missing of it.

        `target` holds what the user said of the place (``project``, ``entity``, ``server``, ``run``, ``directory``,
        ``offline``); `rows` have ``time``, ``step`` and ``series`` and come once, in order, the same for each export.
        ``rows.skip(count)`` before the first passes over those that are there already; ``rows.key`` is another one for
        other rows. Repeated, it must not write a row twice.

        Process: tm. Thread: main. Rate: once per command. Returns: where it went, or None for another tracker's name.
        Raises `ValueError` with one clear line when it cannot be written.
        """

    @hookspec(firstresult=True)
    def commands(self) -> Mapping[str, tuple[str, str]] | None:
        """Commands of the adapter's own, called as ``tm <adapter> <name>``.

        Other words after the adapter's name stay the user's program of that name.

        Process: tm. Thread: main. Rate: once per command. Returns: name to ("module:click command", one line of help).
        """

    @hookspec(firstresult=True)
    def open_local(self, directory: str) -> LocalWriter | Absent | None:
        """Open files in the given directory for a run that has no tracker of its own.

        Process: tm. Thread: main. Rate: once per run. Returns: a writer; where a library for it is missing an `Absent`
        whose reason says how to get it; None where this adapter has no such files.
        """

    @hookspec(firstresult=True)
    def serve_local(self, tracker: str, place: Mapping[str, str], port: int, keep: bool) -> Served | None:
        """Start a viewer of one run on loopback, on the first free port from `port` on; 0 is the viewer's usual one.

        `tracker` and `place` are what `AgentFace.publishes_to` told; for a run with no tracker they are "" and the
        ``directory`` that `open_local` was given. Unless it is to be kept, it must end when tm does, however that
        comes. It shares neither stdin nor the terminal's signals.

        Process: tm. Thread: main. Rate: once per run. Returns: at once, or None when it cannot show this run.
        """

    @hookspec
    def doctor(self) -> list[Check]:  # type: ignore[empty-body]
        """Say whether the tracker is here, in which version, and whether the tap fits it.

        Process: tm, in the trainer's interpreter. Thread: main. Rate: once per command. Returns: checks.
        """

    @hookspec(firstresult=True)
    def where(self, tracker: str, place: Mapping[str, str]) -> str | None:
        """One line saying how to look at a run that `AgentFace.publishes_to` announced.

        Process: tm. Thread: main. Rate: once per run. Returns: a URL or a command, or None when it is not ours.
        """

    @hookspec
    def users_data(self, directory: str) -> list[UsersData]:  # type: ignore[empty-body]
        """Read what programs logged to this tracker in files below a directory, without what is trainmeter's.

        Process: tm. Thread: main. Rate: once per run of `tm selftest`. Returns: one entry per run, in the order in
        which they were begun; none without the tracker's library.
        """

    @hookspec
    def kept_apart(self, directory: str, base: Mapping[str, str]) -> Mapping[str, str]:  # type: ignore[empty-body]
        """Variables that keep what a program logs off the network: in its own files, or below a directory.

        `base` is the environment that the program would have. Process: tm. Thread: main. Rate: once per run of
        `tm selftest`. Returns: only what is added or changed.
        """

    @hookspec
    def deliver(self, run_directory: str) -> list[Delivered]:  # type: ignore[empty-body]
        """Send what a run left in its directory because its tracker did not answer (`runlog.format.PENDING`).

        Process: tm, of a later time. Thread: main. Rate: once per directory. Returns: one entry per tracker's run.
        """
