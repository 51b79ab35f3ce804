"""What the adapters' stand-ins for the agent have in common: all of `AgentFace`, with nothing to tell where they do not say."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from trainmeter_core.hookspecs import AgentFace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class StandIn(AgentFace):
    """Counts the user's logging calls and notes what it is told; rows, passport and guard are each adapter's own."""

    row_interval_s = 0.0

    def __init__(self) -> None:
        self.steps = 0
        self.places: list[tuple[str, dict[str, str]]] = []
        self.waits: dict[str, float] = {}
        self.logging_calls = 0

    def step(self) -> None:
        self.steps += 1

    def steps_ended(self) -> int:
        return self.steps

    @contextlib.contextmanager
    def logging(self) -> Iterator[None]:
        self.logging_calls += 1
        yield

    def before_passport(self, work: Callable[[], None]) -> None:
        pass

    def row_of_run(self, final: bool = False, reader: str = "") -> dict[str, float] | None:
        return self.row(final=final, reader=reader)

    def counts(self) -> dict[str, float]:
        return {}

    def readings(self) -> dict[str, float]:
        return {}

    def each_row(self, work: Callable[[], None]) -> None:
        pass

    def part(self) -> Any:
        return None

    def run_directory(self) -> str:
        return ""

    def publishes_to(self, tracker: str, **where: str) -> None:
        self.places.append((tracker, where))

    def blocked(self, call: str, seconds: float, advice: str) -> None:
        self.waits[call] = seconds
