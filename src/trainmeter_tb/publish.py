"""What goes into the user's own event file beside their data, and when: rows of series, the layout, the passport."""

from __future__ import annotations

import json
import os
import threading
import time
from typing import TYPE_CHECKING, Any, Mapping

from trainmeter_core.passport import markdown
from trainmeter_core.version import __version__

from . import panels
from .events import (
    LAYOUT_PLUGIN,
    LAYOUT_TAG,
    OWN_PLUGIN,
    PASSPORT_JSON_TAG,
    PASSPORT_TAG,
    TEXT_PLUGIN,
    VERSION_TAG,
    Told,
    string_of,
)
from .sink import Package, Sink
from .writers import Writer, Writers, series_in_sub_run

if TYPE_CHECKING:
    from trainmeter_core.hookspecs import AgentFace

TRACKER = "tensorboard"

_OPTIMIZER_STEP = "trainmeter/step"

# The machine-readable passport is written again now and then, for a run that is killed: at first after this many
# seconds, then when the run has become a quarter older, so that a long run holds a few dozen.
_PASSPORT_AFTER_S = 60.0
_OLDER = 0.25

# A layout stands near the start of an event file; beyond this a resumed run is not searched for one.
_LAYOUT_WITHIN = 64 << 20


class Publisher:
    """Follows the program's event writers and puts our series into the primary one; one per agent."""

    def __init__(self, agent: AgentFace) -> None:
        self.agent = agent
        self._writers = Writers()
        self._layouts: dict[str, bytes] = {}
        self._begun: list[str] = []
        self._lock = threading.RLock()
        self._owner = os.getpid()
        self._finished = False
        self._started = time.monotonic()
        self._passport_due = self._started + _PASSPORT_AFTER_S

    @property
    def silent(self) -> bool:
        """True in a forked child, whose writers are its parent's, and after the end of the run."""
        return self._finished or os.getpid() != self._owner

    def opened(self, sink: Sink) -> None:
        """A writer was made."""
        with self._lock:
            self._state(sink)

    def wrote(self, sink: Sink, told: Told) -> None:
        """The user's event was written: follow it, and publish beside it when a row is due."""
        with self._lock:
            state = self._state(sink)
            state.events += 1
            if told.session_start:
                state.axis.resumed()
            if told.layout is not None:
                self._layouts[state.logdir] = told.layout
            owner = self._writers.owner(state, [tag for tag, _number in told.scalars])
            fits = self._follow(owner, told)
            primary = bool(told.scalars) and self._writers.elect(owner)
            self._observe(state, owner, told, primary)
            begun = state.logdir in self._begun
        if told.layout is not None and begun:
            self._write_layout(sink, state.logdir, told.step)
        if primary and fits:
            self._publish(owner, told)

    def closes(self, sink: Sink) -> None:
        """The user closes a writer: when it is the primary one, write the last row and the passport first."""
        with self._lock:
            state = self._state(sink)
            if state.closed:
                return
            primary = self._is_run(state)
            state.closed = True
        if primary:
            self._write_end(sink, state)

    def finish(self) -> None:
        """Write the last row and the passport to a run that was never closed, and flush it; silent from then on."""
        if self.silent:
            return
        for state in self._writers.all_open():
            sink = Sink(state.reference(), state.package)
            if sink.writer is None or not self._is_run(state) or not sink.takes_events():
                continue
            state.closed = True
            with self.agent.guard("tensorboard.finish"):
                self._write_end(sink, state)
                sink.flush()
        self._finished = True

    def _state(self, sink: Sink) -> Writer:
        return self._writers.of(sink.writer, str(sink.writer.get_logdir()), sink.package)

    @staticmethod
    def _follow(owner: Writer, told: Told) -> bool:
        fits = False
        for tag, _number in told.scalars:
            advanced, at_place = owner.axis.saw(tag, told.step)
            owner.score += advanced
            fits = fits or at_place
        return fits

    def _observe(self, state: Writer, owner: Writer, told: Told, primary: bool) -> None:
        # add_hparams repeats in its own run what the user logged elsewhere; such a run never advances.
        if not told.scalars or (owner.nested and owner.score == 0):
            return
        seen: dict[str, float] = {}
        for tag, number in told.scalars:
            name = tag
            if state is not owner:
                key = series_in_sub_run(state.logdir, owner.logdir, tag)
                name = tag if key is None else tag + "/" + key
            elif not primary and self._writers.primary is not None:
                name = os.path.basename(state.logdir) + "/" + tag
            seen[name] = number
        self.agent.observe(seen, told.step)

    def _publish(self, owner: Writer, told: Told) -> None:
        sink = Sink(owner.reference(), owner.package)
        row = self.agent.row_of_run(reader=TRACKER) if sink.writer is not None else None
        if row:
            step = owner.axis.place(told.step, row.get(_OPTIMIZER_STEP))
            sink.row(row, step, told.wall_time)
            self._begin(sink, owner, step)
            now = time.monotonic()
            if now >= self._passport_due:
                self._passport_due = now + max(_PASSPORT_AFTER_S, _OLDER * (now - self._started))
                self._write_json(sink, self.agent.passport(), step)

    def _begin(self, sink: Sink, owner: Writer, step: int) -> None:
        """The first row in a directory: say where it is, show the panels, leave what is known should we be killed."""
        with self._lock:
            if owner.logdir in self._begun:
                return
            self._begun.append(owner.logdir)
            if owner.logdir not in self._layouts:
                earlier = earlier_layout(owner.logdir, sink.package)
                if earlier is not None:
                    self._layouts[owner.logdir] = earlier
        self.agent.publishes_to(TRACKER, logdir=owner.logdir)
        self._write_layout(sink, owner.logdir, step)
        sink.string(VERSION_TAG, OWN_PLUGIN, __version__.encode(), step)
        self._write_json(sink, self.agent.passport(), step)

    @staticmethod
    def _write_json(sink: Sink, passport: Mapping[str, Any] | None, step: int) -> None:
        if passport:
            text = json.dumps(passport, separators=(",", ":"), allow_nan=False)
            sink.string(PASSPORT_JSON_TAG, OWN_PLUGIN, text.encode("utf-8"), step)

    def _write_layout(self, sink: Sink, logdir: str, step: int) -> None:
        content = panels.merged_layout(sink.layout_class(), self._layouts.get(logdir))
        sink.string(LAYOUT_TAG, LAYOUT_PLUGIN, content, step)

    def _is_run(self, state: Writer) -> bool:
        """True for the primary writer, and for the first one there is when the user wrote no scalar at all."""
        if self._writers.primary is None and not state.nested and state.events > 0:
            self._writers.primary = state
        return self._writers.primary is state

    def _write_end(self, sink: Sink, state: Writer) -> None:
        row = self.agent.row_of_run(final=True, reader=TRACKER)
        passport = self.agent.passport()
        step = state.axis.end((row or {}).get(_OPTIMIZER_STEP))
        if row:
            sink.row(row, step, time.time())
        if row or passport:
            self._begin(sink, state, step)
        if passport:
            sink.string(PASSPORT_TAG, TEXT_PLUGIN, markdown.render(passport).encode("utf-8"), step)
            self._write_json(sink, passport, step)


def earlier_layout(logdir: str, package: Package) -> bytes | None:
    """Give the newest custom_scalars layout in the event files of a directory; None for none, or for a remote one."""
    if not os.path.isdir(logdir):
        return None
    from .records import last_record_with

    for name in sorted((each for each in os.listdir(logdir) if "tfevents" in each), reverse=True):
        data = last_record_with(os.path.join(logdir, name), LAYOUT_TAG.encode(), _LAYOUT_WITHIN)
        for value in package.event.FromString(data).summary.value if data else ():
            if value.tag == LAYOUT_TAG:
                return string_of(value)
    return None
