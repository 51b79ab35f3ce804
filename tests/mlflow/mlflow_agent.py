"""An agent that counts steps for real, so that the adapter is tested against the contract and not against a mock."""

from __future__ import annotations

import os

from tests.stand_in_agent import StandIn
from trainmeter_core.inside.own_record import passport_so_far


class Place:
    """A guard that notes and raises."""

    on = True

    def __init__(self, agent, site):
        self.agent, self.site = agent, site

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if isinstance(error, Exception):
            self.agent.failures.append((self.site, repr(error)))
        return False

    def failed(self, error):
        self.agent.failures.append((self.site, repr(error)))


class Agent(StandIn):
    """Implements `AgentFace`: one row per optimizer step; failures of ours are noted."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[dict[str, float]] = []
        self.observed: list[tuple[dict[str, float], int | None]] = []
        self.observed_after: list[int] = []
        self.failures: list[tuple[str, str]] = []
        self._told = 0

    def observe(self, scalars, step, after=None) -> None:
        self.observed.append((dict(scalars), step))
        self.observed_after.append(after)

    def row(self, final: bool = False, reader: str = ""):
        if self.steps == self._told:
            return None
        self._told = self.steps
        row = {
            "trainmeter/step": float(self.steps),
            "trainmeter/tokens": float(self.steps * 524289),
            "trainmeter/mfu_pct": 41.5,
            "trainmeter/mfu/torchtitan": 41.5,
            "trainmeter/ladder/1_gpu_util": 97.0,
            "trainmeter/ladder/2_sm_active": 90.0,
            "trainmeter/ladder/3_tensor_active": 50.0,
            "trainmeter/ladder/4_ofu": 46.0,
            "trainmeter/ladder/5_hfu": 45.0,
            "trainmeter/ladder/6_mfu": 41.5,
            "trainmeter/time/step": 97.25,
            "trainmeter/time/data_wait": 2.75,
            "trainmeter/node/cpu_pct": 12.5,
            "trainmeter/node/disk_busy_pct/sda (root)": 1.0,
        }
        self.rows.append(row)
        return row

    def passport(self, part=None):
        steps = {
            "type": "steps", "rank": 0, "pid": 1, "first": 1, "last": self.steps, "n": self.steps, "tokens": 512,
            "samples": 8, "micro_batches": 8, "wall_s": 2.0, "time": {"step": 2.0}, "batches": [[4, 64, 0, 2]],
        }  # fmt: skip
        losses = {"type": "losses", "rank": 0, "tags": {"<img src=x>": {
            "count": 1, "first": [1.0, 1], "last": [1.0, 1], "best": [1.0, 1]}}}  # fmt: skip
        return passport_so_far("", [steps, losses])

    def counts(self):
        return {"trainmeter/step": float(self.steps), "trainmeter/tokens": float(self.steps * 524289)}

    def run_directory(self) -> str:
        return os.environ.get("TRAINMETER_RUN", "")

    def guard(self, site: str):
        return Place(self, site)
