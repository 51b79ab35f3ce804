"""An agent that counts steps for real, so that the adapter is tested against the contract and not against a mock."""

from __future__ import annotations

import json
import time
from typing import Any

from tests.stand_in_agent import StandIn
from trainmeter_core.passport.build import build
from trainmeter_core.run_record import RunRecord, StepBlock

TOKENS_PER_STEP = 524289
GPT2: dict[str, Any] = {
    "class": "GPT2LMHeadModel",
    "config": {"model_type": "gpt2", "vocab_size": 512, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128},
    "params": {"total": 141440, "trainable": 141440, "lookup": 40960, "position_lookup": 8192, "norm_bias": 1600},
    "device": "cpu",
}


class Agent(StandIn):
    """Implements `AgentFace`: a row per new optimizer step, at most one in `every` seconds; failures are raised."""

    def __init__(self, every: float = 0.0, script: str = "train.py") -> None:
        super().__init__()
        self.every = self.row_interval_s = every
        self.script = script
        self.observed: list[dict[str, float]] = []
        self.failures: list[str] = []
        self._row: dict[str, float] | None = None
        self._row_step = 0
        self._taken: dict[str, int] = {}
        self._last = -1e9

    def observe(self, scalars, step, after=None) -> None:
        self.observed.append(dict(scalars))

    def row(self, final: bool = False, reader: str = ""):
        now = time.monotonic()
        if self.steps != self._row_step and (final or now - self._last >= self.every):
            self._row_step, self._last = self.steps, now
            self._row = {
                **self.counts(),
                "trainmeter/mfu_pct": 41.5,
                "trainmeter/mfu/torchtitan": 41.5,
                "trainmeter/ladder/1_gpu_util": 97.0,
                "trainmeter/ladder/6_mfu": 41.5,
                "trainmeter/time/step": 97.25,
                "trainmeter/time/data_wait": 2.75,
            }
        if self._row is None or self._taken.get(reader) == self._row_step:
            return None
        self._taken[reader] = self._row_step
        return dict(self._row)

    def counts(self):
        return {
            "trainmeter/step": self.steps,
            "trainmeter/tokens": self.steps * TOKENS_PER_STEP,
            "trainmeter/samples": self.steps * 8,
        }

    def part(self):
        return self.steps

    def passport(self, part=0):
        steps = self.steps - (part or 0)
        if not steps:
            return None
        record = RunRecord()
        record.identity.run_id, record.identity.script = "pi31415", self.script
        record.model = GPT2
        record.world_size = 1
        record.hardware.gpus = []
        record.options.peak_tflops, record.options.peak_source = 0.5, "user"
        record.add_steps(0, StepBlock(n=1, tokens=512, samples=8, micro_batches=1, wall_s=3.0, startup=True))
        batches = [(8, 64, 0, steps)]
        record.add_steps(
            0,
            StepBlock(
                n=steps, tokens=512 * steps, samples=8 * steps, micro_batches=steps,
                wall_s=0.5 * steps, time_s={"step": 0.4 * steps}, batches=batches,
            ),
        )  # fmt: skip
        return json.loads(json.dumps(build(record)))

    def guard(self, site: str):
        return Guard(site, self.failures)


class Guard:
    """Notes what fails inside, and lets it through."""

    on = True

    def __init__(self, site: str, failures: list[str]) -> None:
        self.site = site
        self.failures = failures

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind, error, trace) -> None:
        if isinstance(error, Exception):
            self.failures.append(f"{self.site}: {error!r}")
