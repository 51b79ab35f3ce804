"""Microseconds of each tap alone, timed directly: right after a real training step, and in a loop of its own.

    tm --quiet benchmarks/overhead_by_tap.py [TIMES WIDTH LAYERS]

Between two calls a whole step of another model runs without the taps and pushes ours out of the caches, as a training
step does. So this is the upper end of what a tap costs; in a step, five taps share what is pushed out once. The
originals that the taps call do nothing here. The difference to a function that does nothing is what a tap adds.
"""

from __future__ import annotations

import statistics
import sys
import types
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import torch
from overhead_model import LENGTH, VOCAB, Gpt
from torch import nn
from torch.optim import optimizer as optimizers

if TYPE_CHECKING:
    from collections.abc import Callable

words = [int(word) for word in sys.argv[1:4]]
times, width, layers = words + [1000, 16, 1][len(words) :]
torch.manual_seed(0)
torch.set_num_threads(1)
ids = torch.randint(0, VOCAB, (1, LENGTH + 1))


def step_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    loss = nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


class Base:
    training = True

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        return None


class Model(Base):
    """A model whose forward does nothing."""


def take_taps_off(agent: Any) -> tuple[Any, Any]:
    """Let real steps run bare from here on; give the optimizers' hooks."""
    tables = optimizers._global_optimizer_pre_hooks, optimizers._global_optimizer_post_hooks
    hooks = [next(iter(table.values())) for table in tables]
    agent.model._untap()
    for table in tables:
        table.clear()
    for place in (torch.autograd, torch.autograd.graph):
        place._engine_run_backward = place._engine_run_backward.__wrapped__
    return hooks[0], hooks[1]


def main() -> None:
    model = Gpt(16, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(30):
        step_of(model, optimizer)
    try:
        from trainmeter_core.inside.taps import backward, data, model_calls
    except ImportError:
        sys.exit("the taps are not there: run this by tm")
    agent = model_calls.noting.agent
    enters, leaves = take_taps_off(agent)
    engine: Any = types.SimpleNamespace(_engine_run_backward=lambda *_: None, graph=types.SimpleNamespace())
    backward.install(engine, agent)
    next_batch = data._timed(lambda _: None, agent)
    fake: Any = Model()
    type(fake).__call__ = model_calls.tapped_call(Model, None, [id(fake)], agent, agent.model.shape_of)
    tokens = ids[:, :-1]
    taps: dict[str, Callable[[], object]] = {
        "nothing": lambda: None,
        "data loader": lambda: next_batch(None),
        "model call": lambda: fake(tokens),
        "backward": lambda: engine._engine_run_backward(None),
        "optimizer enters": lambda: enters(optimizer, (), {}),
        "optimizer leaves": lambda: leaves(optimizer, (), {}),
    }
    cold: dict[str, list[float]] = {name: [] for name in taps}
    warm: dict[str, list[float]] = {name: [] for name in taps}
    other = Gpt(width, layers)
    others = torch.optim.AdamW(other.parameters(), lr=1e-3)
    steps: list[float] = []
    for spent, between in ((cold, True), (warm, False)):
        for _ in range(times):
            for name, tap in taps.items():
                if between:
                    start = perf_counter_ns()
                    step_of(other, others)
                    steps.append((perf_counter_ns() - start) / 1e6)
                start = perf_counter_ns()
                tap()
                spent[name].append((perf_counter_ns() - start) / 1e3)
    for name in taps:
        after, alone = statistics.median(cold[name]), statistics.median(warm[name])
        print(f"{name:<17} {after:6.2f} us after a step, {alone:5.2f} us warm")
    print(f"the step before it {statistics.median(steps):.2f} ms, {sum(1 for _ in other.modules())} modules")
    for what, which in (("a step adds", list(taps)), ("a further micro-batch", list(taps)[:4])):
        added = [sum(statistics.median(e[n]) - statistics.median(e["nothing"]) for n in which) for e in (cold, warm)]
        print(f"{what:<21} {added[0]:6.2f} us after a step, {added[1]:5.2f} us warm")


main()
