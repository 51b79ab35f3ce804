"""What the run had when this process began, as `tm` leaves word of it in the spool; series go on from there."""

from __future__ import annotations

import os
from time import monotonic, sleep
from typing import TYPE_CHECKING

from ..json_text import parse
from ..plain_files import opener
from ..resumption import FILE, NOT_TOLD, NOTHING, Before

if TYPE_CHECKING:
    from .agent import Agent

# What an earlier process left is read within two seconds of its end; a `tm` that is gone will never tell.
_PATIENCE_S = 5.0
_AT_THE_END_S = 2.0
_LOOKS_EVERY_S = 0.05


class SumsBefore:
    """Asked with each row until it is known; a process that nothing came before knows it at once."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._known: Before | None = None
        self._asked = 0.0
        self._looked = 0.0

    def known(self, *, final: bool = False) -> Before | None:
        """Give it; None while it is still to come. Where it never came, or for a `final` row, all of it is unknown."""
        now = monotonic()
        if self._known is None and (final or now - self._looked >= _LOOKS_EVERY_S):
            self._looked = now
            self._known = self._look()
        if self._known is not None:
            return self._known
        self._asked = self._asked or now
        if final:
            until = min(self._asked + _PATIENCE_S, now + _AT_THE_END_S)
            while self._known is None and monotonic() < until:
                sleep(_LOOKS_EVERY_S)
                self._known = self._look()
            return self._known or self._of_the_command()
        return self._of_the_command() if now - self._asked >= _PATIENCE_S else None

    def _look(self) -> Before | None:
        spool, pid = self._agent.spool, self._agent.pid
        try:
            names = os.listdir(spool)
        except OSError:
            # tm is gone, and took it along.
            return None
        mine = f"{FILE}-{pid}"
        if mine in names:
            return _read(os.path.join(spool, mine))
        others = [name for name in names if self._is_others(name)]
        return None if FILE in names or any(self._was_before(name) for name in others) else NOTHING

    def _of_the_command(self) -> Before:
        """What the run had when the command went on with it; for a process that is not the first there is more."""
        spool = self._agent.spool
        try:
            alone = not any(self._is_others(name) for name in os.listdir(spool))
        except OSError:
            # As above.
            return NOT_TOLD
        return (alone and _read(os.path.join(spool, FILE))) or NOT_TOLD

    def _is_others(self, name: str) -> bool:
        return name.endswith(".ring") and not name.endswith(f"-{self._agent.pid}.ring")

    def _was_before(self, ring: str) -> bool:
        """Whether a ring may be an earlier process's: one of this rank, or one whose process has ended."""
        rank, _, pid = ring[1 : -len(".ring")].partition("-")
        if rank == str(self._agent.identity.rank) or not pid.isdigit():
            return True
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            return True
        except OSError:
            # Another user's process has the number now.
            return True
        return False


def _read(path: str) -> Before | None:
    try:
        with open(path, "rb", opener=opener) as file:
            told = parse(file.read())
        sums = {str(name): None if value is None else value + 0 for name, value in told["sums"].items()}
        return Before(sums, told["lost"] + 0)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        # Removed at this moment, or of another version.
        return None
