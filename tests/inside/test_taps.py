"""Every tap of torch: it observes, it can be taken out again, and its own failure never reaches the user's code."""

from __future__ import annotations

import copy
import importlib
import inspect
import io
import pickle
import sys
import threading
import traceback
from typing import TYPE_CHECKING, Any

import cloudpickle
import pytest
import torch
import torch.optim.optimizer
import torch.utils.data.dataloader
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.inside.conftest import TAPS
from trainmeter_core.inside import guard
from trainmeter_core.inside.agent import InGraph
from trainmeter_core.inside.taps import model_calls

if TYPE_CHECKING:
    from collections.abc import Callable

OPTIMIZER = sys.modules["torch.optim.optimizer"]
PATCHED = {
    "optimizer": (
        lambda: dict(OPTIMIZER._global_optimizer_pre_hooks),
        lambda: dict(OPTIMIZER._global_optimizer_post_hooks),
        lambda: OPTIMIZER.Optimizer.__init__,
    ),
    "backward": (lambda: torch.autograd._engine_run_backward, lambda: torch.autograd.graph._engine_run_backward),
    "model": (lambda: vars(nn.Module)["__call__"],),
    "compiling": (lambda: model_calls.compiling,),
    "data": tuple(
        (lambda cls=cls: vars(cls)["__next__"])
        for name, cls in vars(torch.utils.data.dataloader).items()
        if name.endswith("BaseDataLoaderIter")
    ),
    "scaler": (lambda: torch.amp.GradScaler.step,),
    "checkpoint": (lambda: torch.serialization.save,),
    "by_value": (lambda: cloudpickle.cloudpickle.Pickler.dump,),
    "dynamo": (lambda: set(sys.modules["torch._dynamo.trace_rules"].FORCE_SKIP_FILES),),
}
# Taps that see nothing by themselves.
SILENT = ("compiling", "dynamo")


class Broken:
    """An agent that fails at whatever a tap asks of it, but for the flags that are read at every call."""

    in_graph = InGraph()

    def __init__(self):
        self.step = BrokenStep()

    def __getattr__(self, name):
        raise RuntimeError("ours: " + name)


class BrokenStep:
    thread = threading.get_ident()
    in_model = False
    in_backward = False

    def __getattr__(self, name):
        raise RuntimeError("ours: step." + name)


def install(tap, agent):
    return importlib.import_module("trainmeter_core.inside.taps." + tap).install(sys.modules[TAPS[tap]], agent)


def train(steps=3, model=None):
    """A step of everything that is tapped; the losses."""
    torch.manual_seed(0)
    model = model or nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    losses = []
    for (batch,) in DataLoader(TensorDataset(torch.randn(2 * steps, 4)), batch_size=2):
        loss = model(batch).pow(2).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        losses.append(loss.item())
    torch.serialization.save(model.state_dict(), io.BytesIO())
    return losses


@pytest.mark.parametrize("tap", TAPS)
def test_undo_restores_every_patched_object_by_identity(tap, agent):
    for module in TAPS.values():
        importlib.import_module(module)
    before = [read() for read in PATCHED[tap]]
    undo = install(tap, agent)
    during = [read() for read in PATCHED[tap]]
    assert all(a is not b and a != b for a, b in zip(before, during, strict=True))
    undo()
    after = [read() for read in PATCHED[tap]]
    assert all(a is b or a == b for a, b in zip(before, after, strict=True))


def test_after_a_whole_training_everything_is_as_it_was(tapped):
    train()
    assert tapped.ended.steps == 3
    tapped.uninstall()
    assert tapped.undo == []
    assert "__call__" not in vars(nn.Sequential)
    steps = tapped.ended.steps
    train()
    assert tapped.ended.steps == steps


@pytest.mark.parametrize("tap", [tap for tap in TAPS if tap not in SILENT])
def test_a_broken_agent_never_breaks_the_users_code(tap, lenient):
    bare = train(8)
    undo = install(tap, Broken())
    try:
        assert train(8) == bare
    finally:
        undo()


def test_a_broken_sum_never_breaks_the_call_of_a_settled_model(tapped, lenient):
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(8):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        tapped.step.pending = tapped.step.waiting = None
    assert tapped.model.tapped
    assert guard.site("model call").count == guard.PATIENCE
    assert guard.site("optimizer").count


@pytest.mark.parametrize("tap", [tap for tap in TAPS if tap not in SILENT])
def test_a_tapped_function_keeps_name_doc_and_signature(tap, agent):
    reads: list[Callable[[], Any]] = [read for read in PATCHED[tap] if callable(read())]
    before = [read() for read in reads]
    undo = install(tap, agent)
    try:
        for original, tapped in zip(before, [read() for read in reads], strict=True):
            assert tapped.__name__ == original.__name__ or tap == "model"
            if tap != "model":
                assert (tapped.__doc__, inspect.signature(tapped)) == (original.__doc__, inspect.signature(original))
    finally:
        undo()


class Failing(nn.Module):
    """Raises where it is told to."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(2))
        self.fail = False

    def forward(self, x):
        if self.fail:
            raise LookupError("theirs")
        return (self.w * x).sum()


@pytest.mark.skipif(sys.version_info < (3, 11), reason="a bare raise restores the first traceback before Python 3.11")
def test_the_users_exceptions_pass_without_a_frame_of_ours(tapped):
    model = Failing()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for armed in (True, False):
        model.fail = True
        with pytest.raises(LookupError, match="theirs") as caught:
            model(torch.ones(2))
        frames = "".join(traceback.format_tb(caught.value.__traceback__))
        assert "inside/taps" not in frames, armed
        model.fail = False
        loss = model(torch.ones(2))
        loss.backward()
        with pytest.raises(RuntimeError, match=r"second time|does not require grad") as of_torch:
            torch.ones(1).sum().backward()
        assert "inside/taps" not in "".join(traceback.format_tb(of_torch.value.__traceback__))
        optimizer.step()

    def broken():
        yield from DataLoader([1, 2, 3], batch_size=2, collate_fn=lambda _: 1 / 0)

    with pytest.raises(ZeroDivisionError) as of_loader:
        next(broken())
    assert "inside/taps" not in "".join(traceback.format_tb(of_loader.value.__traceback__))
    with pytest.raises((pickle.PicklingError, AttributeError, TypeError)) as of_pickle:
        torch.serialization.save(lambda: 0, io.BytesIO())
    assert "inside/taps" not in "".join(traceback.format_tb(of_pickle.value.__traceback__))


def test_a_call_after_one_that_raised_is_observed_again(tapped):
    model = Failing()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        model.fail = True
        with pytest.raises(LookupError):
            model(torch.ones(2))
        model.fail = False
        model(torch.ones(2)).backward()
        optimizer.step()
    assert (tapped.ended.steps, tapped.step.in_model) == (4, False)


def test_nothing_of_ours_is_stored_on_the_users_objects(tapped):
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    before = set(vars(model)), len(model._forward_pre_hooks), len(model._forward_hooks)
    train(model=model)
    assert (set(vars(model)), len(model._forward_pre_hooks), len(model._forward_hooks)) == before
    buffer = io.BytesIO()
    torch.serialization.save(model, buffer)
    buffer.seek(0)
    again = torch.load(buffer, weights_only=False)
    assert type(again) is nn.Sequential
    copied = copy.deepcopy(model)
    torch.jit.script(copied)
    steps = tapped.ended.used.total()
    copied(torch.ones(2, 4)).sum().backward()
    assert tapped.step.all_pending() == []
    assert tapped.ended.used.total() == steps


def test_a_gradient_scaler_that_finds_infinities_skips(tapped, written):
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    for step in range(5):
        scaler.scale(model(torch.ones(3, 2)).sum()).backward()
        if step in (0, 3):
            model.weight.grad[0, 0] = float("nan")
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    assert written().totals[1:5] == (3, 2, 0, 15)


def test_a_scaler_with_two_optimizers_skips_the_leading_one_once(tapped, written):
    model = nn.Sequential(nn.Linear(2, 8), nn.Linear(8, 1))
    optimizers = [torch.optim.SGD(layer.parameters(), lr=0.1) for layer in model]
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    for step in range(6):
        scaler.scale(model(torch.ones(3, 2)).sum()).backward()
        if step == 4:
            for p in model.parameters():
                p.grad.fill_(float("inf"))
        for optimizer in optimizers:
            scaler.step(optimizer)
        scaler.update()
        model.zero_grad()
    assert written().totals[1:5] == (5, 1, 0, 18)


def test_saving_is_timed_once_however_it_nests(tapped, written, monkeypatch):
    from trainmeter_core.inside.taps import checkpoint

    monkeypatch.setattr(checkpoint, "_WORTH_A_LINE_S", 0.0)

    class Saves:
        def __reduce__(self):
            torch.serialization.save({"inner": 1}, io.BytesIO())
            return (int, ())

    torch.serialization.save([Saves()], io.BytesIO())
    assert [event["kind"] for event in written().of("span")] == ["checkpoint"]


def test_loading_in_the_background_is_not_a_wait_of_the_training_thread(tapped):
    loader = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2)
    thread = threading.Thread(target=lambda: list(loader))
    thread.start()
    thread.join()
    from trainmeter_core.inside.span_clock import DATA_WAIT

    assert tapped.step.seconds[DATA_WAIT] == 0.0
    list(loader)
    assert tapped.step.seconds[DATA_WAIT] > 0.0


def test_an_iterator_keeps_its_type_and_length(tapped):
    loader = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2)
    iterator = iter(loader)
    assert type(iterator).__name__ == "_SingleProcessDataLoaderIter"
    assert (len(iterator), len(loader), len(list(iterator))) == (4, 4, 4)


def test_a_site_that_failed_too_often_rests_and_the_call_goes_through(agent, lenient):
    undo = install("backward", Broken())
    try:
        for _ in range(guard.PATIENCE + 2):
            torch.ones(2, requires_grad=True).sum().backward()
        assert not guard.site("backward").on
        assert guard.site("backward").count == guard.PATIENCE
    finally:
        undo()
