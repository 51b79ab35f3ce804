"""What the other ranks did, read from the headers of their rings in the same spool; no collective is ever issued."""

from __future__ import annotations

import mmap
import os
from fractions import Fraction
from typing import TYPE_CHECKING

from ..plain_files import opener
from ..ring_format import HEADER_SIZE, IDENTITY, MAGIC, TOTALS, TOTALS_OFFSET

if TYPE_CHECKING:
    from .agent import Agent

MYPY = False
if MYPY:
    from typing import Any


_READS = 3


class Peers:
    """Maps each other rank's ring once; ranks on other nodes are assumed to do what this node's ranks do."""

    def __init__(self, spool: str) -> None:
        self._spool = spool
        self._rings: dict[str, tuple[int, float, Any]] = {}

    def scale(self, agent: Agent) -> tuple[int, int]:
        """Give global over local as a fraction, of tokens where there are any, else of samples.

        A rank that is a step ahead or behind is taken at its mean per step, so that equal ranks give exactly their
        number.
        """
        world = max(1, agent.identity.world_size)
        mine = agent.ended.tokens or agent.ended.samples
        if world == 1 or not mine or not agent.ended.steps:
            return (world // agent.ended.batch_ranks or 1, 1)
        self._look(agent)
        seen, ranks = Fraction(mine), 1
        groups = Fraction(world, agent.ended.batch_ranks)
        for rank, _, ring in self._newest().values():
            if rank == agent.identity.rank:
                continue
            steps, tokens, samples = _totals(ring)
            if steps and (agent.ended.batch_ranks == 1 or tokens or samples):
                seen += Fraction((tokens if agent.ended.tokens else samples) * agent.ended.steps, steps)
                ranks += 1
        scale = seen * groups / (ranks * mine)
        return (scale.numerator, scale.denominator)

    def _newest(self) -> dict[int, tuple[int, float, Any]]:
        """One ring a rank: a restarted rank's old ring lies beside its new one."""
        newest: dict[int, tuple[int, float, Any]] = {}
        for rank, started, ring in self._rings.values():
            if rank not in newest or started > newest[rank][1]:
                newest[rank] = (rank, started, ring)
        return newest

    def _look(self, agent: Agent) -> None:
        try:
            names = os.listdir(self._spool)
        except OSError:
            # The spool went with tm.
            return
        for name in names:
            if not name.endswith(".ring") or name in self._rings:
                continue
            try:
                with open(os.path.join(self._spool, name), "rb", opener=opener) as file:
                    ring = mmap.mmap(file.fileno(), HEADER_SIZE, access=mmap.ACCESS_READ)
            except (OSError, ValueError):
                # Being made at this moment; it is looked at again with the next row.
                continue
            magic, _, _, _, rank, _, world, _, _, started = IDENTITY.unpack_from(ring, 0)
            if magic == MAGIC and world == agent.identity.world_size:
                self._rings[name] = (rank, started, ring)


def _totals(ring: Any) -> tuple[int, int, int]:
    """Steps, tokens and samples of a ring; read until two readings agree, because the writer does not wait."""
    last = TOTALS.unpack_from(ring, TOTALS_OFFSET)
    for _ in range(_READS):
        again = TOTALS.unpack_from(ring, TOTALS_OFFSET)
        if again == last:
            break
        last = again
    return last[1], last[3], last[4]
