"""Microseconds that each tool adds to the same training step, one process each, in turns.

    python benchmarks/peers.py [ROUNDS STEPS]

A plain loop: bare; `tm`; W&B's own run, offline, logging every 50 steps; that and `wandb.watch`; TraceML (`traceml run`
with `trace_step`, package traceml-ai). A Lightning loop: bare; `tm`; Lightning's ThroughputMonitor. What is not
installed is named and left out. mfu-tracker measures by CUDA events and has nothing to time on a machine without one.
Each process tells the median over blocks of 50 steps; each tool's figure is the median over the rounds of its
difference to the bare loop of the same round, with the smallest and the largest.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

BLOCK, WARM_UP = 50, 200
HERE = Path(__file__).resolve()

PLAIN = {
    "bare": [sys.executable],
    "tm": ["tm", "--quiet"],
    "W&B": [sys.executable],
    "W&B and watch": [sys.executable],
    "TraceML": ["traceml", "run", "--mode", "summary"],
}
LIGHTNING = {
    "bare Lightning": [sys.executable],
    "tm, Lightning": ["tm", "--quiet"],
    "ThroughputMonitor": [sys.executable],
}


class Clock:
    """Times blocks of steps, and leaves their median in a file."""

    def __init__(self, steps: int) -> None:
        self.steps, self.made = steps, 0
        self.blocks: list[float] = []
        self.start = 0.0

    def stepped(self) -> None:
        self.made += 1
        done = self.made - WARM_UP
        if done >= 0 and done % BLOCK == 0:
            now = time.perf_counter()
            if done:
                self.blocks.append((now - self.start) * 1e6 / BLOCK)
            self.start = time.perf_counter()

    def tell(self) -> None:
        Path(os.environ["PEERS_TOLD"]).write_text(str(statistics.median(self.blocks)), encoding="utf-8")


def plain(name: str, steps: int) -> None:
    import contextlib

    import torch
    from overhead_model import LENGTH, VOCAB, Gpt
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Gpt(64, 4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = torch.randint(0, VOCAB, (steps, 4, LENGTH + 1)).flatten(0, 1)
    run: Any = None
    if name.startswith("W&B"):
        import wandb

        run = wandb.init(mode="offline", project="peers")
        if name.endswith("watch"):
            wandb.watch(model)
    traced: Any = contextlib.nullcontext
    if name == "TraceML":
        import traceml_ai

        traceml_ai.init(mode="auto")
        traced = traceml_ai.trace_step
    clock = Clock(steps)
    for made, (batch,) in enumerate(DataLoader(TensorDataset(data), batch_size=4)):
        with traced(model):
            loss = nn.functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        if run is not None and made % BLOCK == 0:
            run.log({"loss": loss.item()})
        clock.stepped()
    clock.tell()
    if run is not None:
        run.finish()


def lightning(name: str, steps: int) -> None:
    import lightning
    import torch
    from lightning.pytorch.callbacks import ThroughputMonitor
    from lightning.pytorch.loggers import CSVLogger
    from overhead_model import LENGTH, VOCAB, Gpt
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(0)
    torch.set_num_threads(1)
    clock = Clock(steps)

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = Gpt(64, 4)

        def training_step(self, batch: Any) -> Any:
            (ids,) = batch
            return nn.functional.cross_entropy(self.model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

        def on_train_batch_end(self, *_: Any) -> None:
            clock.stepped()

    data = torch.randint(0, VOCAB, (4 * steps, LENGTH + 1))
    monitor = ThroughputMonitor(batch_size_fn=lambda batch: len(batch[0]), length_fn=lambda batch: batch[0].shape[1])
    trainer = lightning.Trainer(
        max_steps=steps, accelerator="cpu", enable_progress_bar=False, enable_model_summary=False,
        enable_checkpointing=False, log_every_n_steps=BLOCK, logger=CSVLogger(tempfile.mkdtemp()),
        callbacks=[monitor] if name == "ThroughputMonitor" else [],
    )  # fmt: skip
    trainer.fit(Module(), DataLoader(TensorDataset(data), batch_size=4))
    clock.tell()


def one(name: str, command: list[str], steps: int, home: Path) -> float | None:
    """Microseconds of a step in a process of its own; None when it did not get to the end."""
    told = home / "told"
    told.unlink(missing_ok=True)
    environment = {**os.environ, "PEERS_TOLD": str(told), "WANDB_SILENT": "true", "WANDB_DIR": str(home)}
    arguments = ["--args"] if command[0] == "traceml" else []
    run = subprocess.run(
        [*command, str(HERE), *arguments, "--loop", name, str(steps)], cwd=home, env=environment, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    if told.exists():
        return float(told.read_text(encoding="utf-8"))
    print(f"{name}: exit code {run.returncode}: {run.stderr[-300:]}", file=sys.stderr)
    return None


def main(rounds: int, steps: int) -> None:
    tools = [PLAIN, LIGHTNING if find_spec("lightning") else {}]
    if not find_spec("traceml_ai"):
        PLAIN.pop("TraceML")
        print("TraceML is not installed (pip install traceml-ai)")
    with tempfile.TemporaryDirectory() as home:
        for loop in tools:
            times: dict[str, list[float]] = {name: [] for name in loop}
            for _ in range(rounds):
                took = {name: one(name, command, steps, Path(home)) for name, command in loop.items()}
                if None not in took.values():
                    for name, value in took.items():
                        times[name].append(value or 0.0)
            if not loop or not next(iter(times.values())):
                continue
            bare, *others = loop
            print(f"{bare}: a step of {statistics.median(times[bare]):.0f} us")
            for name in others:
                added = [value - before for value, before in zip(times[name], times[bare], strict=True)]
                print(f"{name:<18} {statistics.median(added):+7.1f} us ({min(added):+.1f} to {max(added):+.1f})")


if "--loop" in sys.argv:
    at = sys.argv.index("--loop")
    (plain if sys.argv[at + 1] in PLAIN else lightning)(sys.argv[at + 1], int(sys.argv[at + 2]))
else:
    words = [int(word) for word in sys.argv[1:3]]
    main(*words, *[5, 1500][len(words) :])
