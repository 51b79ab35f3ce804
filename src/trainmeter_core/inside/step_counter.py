"""Decides which optimizer events are a step of the run: one rule for one, merged and alternating optimizers."""

from __future__ import annotations

MYPY = False
if MYPY:
    pass

NEW_STEP = 1
PART_OF_STEP = 0

# A smaller optimizer that steps this often while the leading one rests has taken over: a second training phase.
TAKE_OVER = 16


class StepCounter:
    """One logical step is one step of the leading optimizer, the one with the most parameters.

    Optimizers that step with no backward between them (a container of several, one per parameter group) are one step.
    Optimizers that alternate with a backward between (a GAN) are one step a cycle.
    """

    __slots__ = ("_backward_seen", "_idle", "_leader", "_leader_numel", "_unbacked")

    def __init__(self) -> None:
        self._leader: int | None = None
        self._leader_numel = 0
        self._idle = 0
        self._unbacked = 0
        self._backward_seen = False

    def stepped(self, optimizer: int, numel: int, backward_since: bool) -> int:
        """An optimizer (by id, with its parameter count) has stepped; say whether that ends a step of the run.

        ``backward_since``: a backward ran since any optimizer stepped last.
        """
        if not backward_since:
            if self._backward_seen or self._leader not in (None, optimizer):
                return PART_OF_STEP
            # No backward was ever seen: an engine's dry step at start-up, or training without autograd.
            self._leader, self._leader_numel = optimizer, numel
            self._unbacked += 1
            return NEW_STEP if self._unbacked > 1 else PART_OF_STEP
        self._backward_seen = True
        if self._leader is None or optimizer == self._leader:
            self._leader, self._leader_numel, self._idle = optimizer, numel, 0
            return NEW_STEP
        self._idle += 1
        if self._idle >= TAKE_OVER:
            self._leader, self._leader_numel, self._idle = optimizer, numel, 0
            return NEW_STEP
        if numel > self._leader_numel:
            self._leader, self._leader_numel, self._idle = optimizer, numel, 0
        return PART_OF_STEP

    def leads(self, optimizer: int) -> bool:
        """Say whether this optimizer's steps are the run's."""
        return self._leader is None or self._leader == optimizer

    def start_anew(self) -> None:
        """Another training begins: the next optimizer to step leads."""
        self._leader = None
        self._idle = 0

    def gone(self, optimizer: int) -> None:
        """The optimizer was freed: the next one to step leads."""
        if self._leader == optimizer:
            self.start_anew()
