"""An agent that counts steps for real, so that the adapter is tested against the contract and not against a mock."""

from __future__ import annotations

import contextlib
import time

from tests.stand_in_agent import StandIn
from trainmeter_core.passport.build import build
from trainmeter_core.run_record import RunRecord, StepBlock

BATCH, LENGTH = 1, 524289


class Agent(StandIn):
    """Implements `AgentFace`: a row per new optimizer step, at most one in `every` seconds; failures are raised."""

    def __init__(self, every: float = 0.0) -> None:
        super().__init__()
        self.every = every
        self.rows: list[dict[str, float]] = []
        self.observed: list[tuple[dict[str, float], int | None]] = []
        self.failures: list[str] = []
        self.at_rows: list = []
        self._told = -1
        self._last = -1e9

    def step(self) -> None:
        super().step()
        for work in self.at_rows:
            work()

    def observe(self, scalars, step, after=None) -> None:
        self.observed.append((dict(scalars), step))

    def each_row(self, work) -> None:
        self.at_rows.append(work)

    def row(self, final: bool = False, reader: str = ""):
        now = time.monotonic()
        if self.steps == self._told or (now - self._last < self.every and not final):
            return None
        self._told, self._last = self.steps, now
        row = {
            "trainmeter/step": float(self.steps),
            "trainmeter/tokens": float(self.steps * BATCH * LENGTH),
            "trainmeter/mfu_pct": 41.5,
            "trainmeter/mfu/torchtitan": 41.5,
            "trainmeter/ladder/6_mfu": 41.5,
            "trainmeter/time/step": 97.25,
        }
        self.rows.append(row)
        return row

    def readings(self):
        return {"trainmeter/node/load_1": 1.5}

    def passport(self, part=None):
        record = RunRecord(world_size=1)
        record.identity.script, record.identity.name = "train.py", "pi <b>*x*</b> | y"
        record.identity.started = 1_700_000_000.0
        record.add_steps(0, StepBlock(n=0, wall_s=0.5, time_s={"startup": 0.5}, startup=True))
        block = StepBlock(
            n=self.steps,
            first=1,
            last=self.steps,
            tokens=self.steps * BATCH * LENGTH,
            samples=self.steps * BATCH,
            micro_batches=self.steps,
            wall_s=0.25 * self.steps,
            time_s={"step": 0.25 * self.steps},
            batches=[(BATCH, LENGTH, 0, self.steps)],
        )
        record.add_steps(0, block)
        return build(record)

    @contextlib.contextmanager
    def guard(self, site: str):
        try:
            yield
        except Exception:
            self.failures.append(site)
            raise
