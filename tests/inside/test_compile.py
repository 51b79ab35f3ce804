"""torch.compile under observation: the same graphs, breaks, recompiles and losses as without, and the steps are seen."""

from __future__ import annotations

import importlib
import sys

import pytest
import torch

from tests.e2e.programs.tiny import GPT, config, tokens
from tests.inside.conftest import TAPS

STEPS, ROWS, LENGTH = 4, 4, 16


def loop(model, forward=None, step=None):
    """Train with whatever was compiled; the losses."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    forward = model if forward is None else forward
    losses = []
    for at in range(STEPS):
        batch = tokens(ROWS, LENGTH + 1, seed=at)
        if step is not None:
            loss = step(optimizer, batch)
        else:
            loss = forward(batch[:, :-1], batch[:, 1:])[1]
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def whole(model, compiled_by):
    return loop(model, compiled_by(model))


def in_place(model, compiled_by):
    model.compile(**compiled_by.how)
    return loop(model)


def blocks(model, compiled_by):
    for at, block in enumerate(model.transformer["h"]):
        model.transformer["h"][at] = compiled_by(block)
    return loop(model)


def blocks_in_place(model, compiled_by):
    for block in model.transformer["h"]:
        block.compile(**compiled_by.how)
    return loop(model)


def loss_function(model, compiled_by):
    def around(x, y):
        return model(x, y)

    return loop(model, compiled_by(around))


def train_step(model, compiled_by):
    def step(optimizer, batch):
        loss = model(batch[:, :-1], batch[:, 1:])[1]
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return loop(model, step=compiled_by(step))


def optimizer_step(model, compiled_by):
    def step(optimizer, batch):
        loss = model(batch[:, :-1], batch[:, 1:])[1]
        loss.backward()
        compiled(optimizer)
        return loss

    def update(optimizer):
        optimizer.step()
        optimizer.zero_grad()

    compiled = compiled_by(update)
    return loop(model, step=step)


def growing(model, compiled_by):
    """Another length each step: recompiles are the same ones too."""
    compiled = compiled_by(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for at in range(STEPS):
        batch = tokens(ROWS, 5 + 2 * at, seed=at)
        loss = compiled(batch[:, :-1], batch[:, 1:])[1]
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def with_evaluation(model, compiled_by):
    compiled = compiled_by(model)
    losses = loop(model, compiled)
    model.eval()
    batch = tokens(ROWS, LENGTH + 1, seed=99)
    with torch.no_grad():
        losses.append(compiled(batch[:, :-1], batch[:, 1:])[1].item())
    model.train()
    return losses + loop(model, compiled)


# How it is compiled, and whether that can be one graph, and whether the calls of the model are visible in Python.
CASES = {
    "model": (whole, True, True),
    "model.compile()": (in_place, True, True),
    "blocks": (blocks, True, True),
    "blocks.compile()": (blocks_in_place, True, True),
    "a function around the model": (loss_function, True, False),
    "a whole training step": (train_step, False, False),
    "the optimizer's step": (optimizer_step, False, True),
    "growing lengths": (growing, True, True),
    "with evaluation": (with_evaluation, True, True),
}
VARIANTS = [
    (name, full)
    for name, (_, can_be_one_graph, _) in CASES.items()
    for full in (True, False)
    if can_be_one_graph or not full
]


class Compile:
    """torch.compile with a backend that counts what it compiles."""

    def __init__(self, fullgraph: bool, backend: str) -> None:
        self.graphs: list[int] = []
        inner = torch._dynamo.lookup_backend(backend)

        def counting(graph, inputs):
            self.graphs.append(len(graph.graph.nodes))
            return inner(graph, inputs)

        self.how = {"backend": counting, "fullgraph": fullgraph}

    def __call__(self, target):
        return torch.compile(target, **self.how)


def observed(case, fullgraph: bool, backend: str):
    """Losses, and everything that Dynamo counted: graphs with their sizes, frames, breaks and their reasons."""
    import torch._dynamo
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    torch.manual_seed(0)
    compiled_by = Compile(fullgraph, backend)
    losses = case(GPT(config(dropout=0.0, block_size=32)), compiled_by)
    told: dict = {
        kind: dict(counters[kind]) for kind in ("stats", "frames", "graph_break", "unimplemented", "recompile_limit")
    }
    del told["frames"]  # the hooks of an optimizer's step may save one
    told["breaks"] = len(told.pop("graph_break"))
    torch._dynamo.reset()
    return losses, compiled_by.graphs, told


@pytest.mark.parametrize(
    ("name", "fullgraph"),
    VARIANTS,
    ids=[f"{name}, {'one graph' if full else 'breaks allowed'}" for name, full in VARIANTS],
)
def test_compilation_is_the_same_and_the_steps_are_seen(name, fullgraph, agent):
    case, _, visible = CASES[name]
    backend = "aot_eager" if name == "model" else "eager"
    bare = observed(case, fullgraph, backend)
    for tap, module in TAPS.items():
        importlib.import_module(module)
        agent.install(tap, importlib.import_module("trainmeter_core.inside.taps." + tap).install, sys.modules[module])
    try:
        under = observed(case, fullgraph, backend)
    finally:
        agent.stepped_in_graph()
        agent.uninstall()
    assert bare[1], "nothing was compiled"
    assert under[0] == bare[0]
    assert under[1] == bare[1]
    assert under[2] == bare[2]
    steps = len(bare[0]) - 1 if name == "with evaluation" else STEPS
    assert agent.ended.steps == steps
    if visible and name != "growing lengths":
        assert agent.ended.tokens == steps * ROWS * LENGTH
    elif name == "growing lengths":
        assert agent.ended.tokens == sum(ROWS * (4 + 2 * at) for at in range(STEPS))


@pytest.mark.parametrize("name", ["model", "model.compile()", "blocks"])
def test_looking_for_another_model_compiles_nothing_anew(name, agent):
    """A later run of a tracker makes the agent look again, while the compiled model is trained on."""

    def twice(model, compiled_by):
        forward = compiled_by(model) if name == "model" else model
        if name == "model.compile()":
            model.compile(**compiled_by.how)
        if name == "blocks":
            for at, block in enumerate(model.transformer["h"]):
                model.transformer["h"][at] = compiled_by(block)
        first = loop(model, forward)
        if agent.undo:
            agent.look_again()
        return first + loop(model, forward)

    bare = observed(twice, True, "eager")
    for tap, module in TAPS.items():
        importlib.import_module(module)
        agent.install(tap, importlib.import_module("trainmeter_core.inside.taps." + tap).install, sys.modules[module])
    try:
        under = observed(twice, True, "eager")
    finally:
        agent.uninstall()
    assert under == bare
    assert (agent.ended.steps, agent.ended.tokens) == (2 * STEPS, 2 * STEPS * ROWS * LENGTH)
