"""A viewer on loopback for a run that has no tracker, by whichever adapter has one; never waited for."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from trainmeter_core.plugins import managers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trainmeter_core.hookspecs import Served
    from trainmeter_core.plugins import FoundPlugin

LOCAL = ""
"""Stands for the tracker's name where a run has none; its place is then the `directory` of its files."""

_UP_WITHIN_S = 120.0


def serve(
    plugins: Sequence[FoundPlugin], tracker: str, place: Mapping[str, str], port: int, *, keep: bool
) -> Served | None:
    """Start a viewer of one run; None when no adapter has one for it. Raises what an adapter raises."""
    for _, manager in managers(plugins):
        served: Served | None = manager.hook.serve_local(tracker=tracker, place=place, port=port, keep=keep)
        if served is not None:
            return served
    return None


class Web:
    """The viewer of one run under tm: on where a person looks at the terminal or asked for it."""

    def __init__(self, plugins: Sequence[FoundPlugin], *, asked: bool | None, port: int, keep: bool) -> None:
        self._plugins = plugins
        self._port = port
        self._keep = keep
        self._served: Served | None = None
        self._told = False
        self._until = 0.0
        self.wanted = (keep or port > 0 or _is_terminal()) if asked is None else asked

    def start(self, directory: str, *, at_the_end: bool = False) -> bool:
        """Start it on a directory that `open_local` wrote; at the end of the run only one that is kept.

        False when there is none to start.
        """
        if not self.wanted or self._served is not None or (at_the_end and not self._keep):
            return False
        try:
            self._served = serve(self._plugins, LOCAL, {"directory": directory}, self._port, keep=self._keep)
        except OSError:  # no port is free, or no process can be started: the command is told instead
            return False
        self._until = time.monotonic() + _UP_WITHIN_S
        return self._served is not None

    def news(self) -> str | None:
        """Once, what there is to say: where the viewer is, or that it did not come; returns at once."""
        served = self._served
        if served is None or self._told:
            return None
        if served.is_up():
            self._told = True
            return f"watch this run: {served.url}"
        if served.is_gone() or time.monotonic() > self._until:
            self._told = True
            self._served = None
            served.close()
            return "the viewer of this run did not start: `tm view` tries again"
        return None

    def close(self) -> str | None:
        """End it with the run, or leave it where it is to be kept; give what there is to say of that."""
        served, self._served = self._served, None
        if served is None:
            return None
        stays = self._keep and not served.is_gone()
        served.close()
        if stays:
            return f"the viewer goes on: {served.url} (kill {served.pid} ends it)"
        return "`tm view` shows this run"


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()
