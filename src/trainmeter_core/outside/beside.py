"""The outside process of a program that started it itself: a session around a process that runs already."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from dataclasses import fields
from typing import Any

from .all_runs import alive
from .launch import Exit
from .options import RunOptions
from .process_tree import ProcessTree
from .program import script_of
from .session import TICK_S, Session

_OTHERS_END_WITHIN_S = 5.0
_LOOKS_EVERY_S = 0.05
_ALLOWED = frozenset(each.name for each in fields(RunOptions)) - {
    "target",
    "kind",
    "variables",
    "web",
    "keep_web",
    "port",
}


class Beside(Session):
    """A session whose program is there already; how that ends cannot be seen."""

    def ended(self, _end: Exit) -> dict[str, Any]:
        """Neither an exit code nor a signal is to be seen."""
        return {"code": None, "signal": None}


def options_from(text: str, target: str) -> RunOptions:
    """The options that `start` was given. Raises ValueError with one line for what is not one."""
    given: dict[str, Any] = json.loads(text)
    unknown = sorted(set(given) - _ALLOWED)
    if unknown:
        raise ValueError(f"no option {unknown[0]!r}; there are {', '.join(sorted(_ALLOWED))}")
    from trainmeter_core.flops import CONVENTIONS
    from trainmeter_core.quantities import positive_count, positive_number

    if given.get("convention", next(iter(CONVENTIONS))) not in CONVENTIONS:
        raise ValueError(f"no convention {given['convention']!r}; there are {', '.join(CONVENTIONS)}")
    for name, value in list(given.items()):
        if name in ("budget_tokens", "budget_steps"):
            given[name] = positive_count(str(value))
        elif name in ("peak_tflops", "budget_flops", "budget_hours"):
            given[name] = float(positive_number(str(value)))
        elif name in ("no_taps", "no_plugins"):
            given[name] = tuple(value)
    return RunOptions(target=target, kind="script", **given)


def main(words: list[str]) -> None:
    """Watch a process until it ends or our standard input does.

    ``words``: its id, its options as JSON, and its PYTHONPATH.
    """
    try:
        tree = ProcessTree(int(words[0]))
        command = tree.command or ["unknown"]
        session = Beside(options_from(words[1], os.path.basename(script_of(command))), command)
    except (ValueError, TypeError, ProcessLookupError) as error:
        print(json.dumps({"problem": str(error)}), flush=True)  # noqa: T201 - the program reads it
        return
    base = {**os.environ, "PYTHONPATH": words[2]}
    told = session.environment(base)
    added = {name: value for name, value in told.items() if base.get(name) != value}
    print(json.dumps({"directory": str(session.writer.directory), "variables": added}), flush=True)  # noqa: T201
    ended = threading.Event()
    threading.Thread(target=_wait_for_the_end, args=(ended,), daemon=True).start()
    session.child_started(int(words[0]))
    while not ended.wait(TICK_S) and tree.alive():
        try:
            session.tick()
        except Exception as error:  # noqa: BLE001 - as in a launched session: counted, and told at the end
            session.own_failure(error)
    _let_others_end(session, int(words[0]))
    session.close(Exit(0))


def _let_others_end(session: Beside, first: int) -> None:
    """Other ranks of the node may end a moment after the one that started this: what they write last is of the run."""
    until = time.monotonic() + _OTHERS_END_WITHIN_S
    while session.drain is not None:
        try:
            session.drain.poll()  # a rank that has just begun is known by now
        except Exception as error:  # noqa: BLE001 - as above
            session.own_failure(error)
            return
        others = {ring.identity.pid for ring in session.drain.rings.values()} - {first}
        if time.monotonic() > until or not any(alive(pid) for pid in others):
            return
        time.sleep(_LOOKS_EVERY_S)


def _wait_for_the_end(ended: threading.Event) -> None:
    while sys.stdin.read(1):
        pass
    ended.set()
