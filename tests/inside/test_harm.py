"""What a program does to itself stays its own: closed descriptors, patches, calls and optimizers that raise."""

from __future__ import annotations

import functools
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

from trainmeter_core.inside import guard

if TYPE_CHECKING:
    from collections.abc import Callable


def step(model, optimizer, ids):
    model(ids).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


class Picky(nn.Module):
    """Runs out of memory on more than four rows."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(8, 2)

    def forward(self, ids):
        if len(ids) > 4:
            raise MemoryError
        return self.table(ids)


CLOSES_BY_NUMBER = """
import os, sys
from pathlib import Path
from trainmeter_core.inside.side_file import SideFile
folder = Path(sys.argv[1])
side = SideFile(str(folder / "side.jsonl"))
side.write("a", {})
os.closerange(3, 256)
theirs = [os.open(folder / str(number), os.O_CREAT | os.O_WRONLY) for number in range(8)]
side.write("b", {})
for number, descriptor in enumerate(theirs):
    os.close(descriptor)
    assert (folder / str(number)).read_bytes() == b""
assert len((folder / "side.jsonl").read_text().splitlines()) == 2
"""


def test_an_event_never_lands_in_a_file_that_took_over_a_descriptor(tmp_path):
    """A program that closes descriptors by number is given the same numbers for its own files."""
    done = subprocess.run([sys.executable, "-c", CLOSES_BY_NUMBER, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_batch_whose_forward_raised_is_not_counted(tapped, agent):
    model = Picky()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        with pytest.raises(MemoryError):
            model(torch.zeros(64, 16, dtype=torch.long))
        step(model, optimizer, torch.zeros(4, 16, dtype=torch.long))
    assert agent.ended.steps == 4
    assert agent.ended.tokens in {4 * 64, 4 * 64 + 64 * 16}  # the model is not known yet when the first one raises


def test_after_an_optimizer_that_raised_another_one_is_counted(tapped, agent):
    class Broken(torch.optim.SGD):
        def step(self, closure=None):
            raise ArithmeticError

    model = Picky()
    broken, optimizer = Broken(model.parameters(), lr=0.1), torch.optim.SGD(model.parameters(), lr=0.1)
    ids = torch.zeros(2, 8, dtype=torch.long)
    with pytest.raises(ArithmeticError):
        step(model, broken, ids)
    for _ in range(5):
        step(model, optimizer, ids)
    assert agent.ended.steps == 5


def test_a_patch_laid_over_ours_stays(tapped, agent):
    calls = []
    original = nn.Module.__call__

    def patched(self, *args, **kwargs):
        calls.append(type(self).__name__)
        return original(self, *args, **kwargs)

    nn.Module.__call__ = patched
    try:
        model = Picky()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(5):
            step(model, optimizer, torch.zeros(2, 8, dtype=torch.long))
        assert nn.Module.__call__ is patched
        assert calls.count("Picky") == 5
    finally:
        nn.Module.__call__ = original


def test_training_in_a_thread_keeps_the_first_batch(tapped, agent):
    model = Picky()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    work = threading.Thread(
        target=lambda: [step(model, optimizer, torch.zeros(2, 8, dtype=torch.long)) for _ in range(5)]
    )
    work.start()
    work.join()
    assert (agent.ended.steps, agent.ended.tokens) == (5, 5 * 16)


def test_the_ring_never_sits_on_a_standard_descriptor():
    """A program that closed its output and writes there all the same writes into nothing of ours."""
    code = """if True:
        import os, sys, tempfile
        from trainmeter_core.inside.ring import Ring
        from trainmeter_core.ring_format import Identity
        path = os.path.join(tempfile.mkdtemp(), "a.ring")
        os.close(1), os.close(2)
        ring = Ring(path, Identity(1, 0, 0, 1, 0.0, 0.0, 0.0))
        for number in (1, 2):
            try:
                os.write(number, b"x")
            except OSError:
                continue
            os._exit(1)
        os._exit(7)
    """
    assert subprocess.run([sys.executable, "-c", code]).returncode == 7


@pytest.mark.parametrize("kind", ["function", "method", "partial"])
def test_what_a_signal_handler_raises_inside_our_code_goes_to_the_program(tapped, lenient, kind):
    """A deadline by SIGALRM that hits while a tap runs ends the step as it would without the tap, and no tap rests."""

    class DeadlineError(Exception):
        pass

    class Handler:
        def method(self, number, frame, *_):
            raise DeadlineError

    handlers: dict[str, Callable[..., object]] = {
        "function": lambda number, frame: Handler().method(number, frame),
        "method": Handler().method,
        "partial": functools.partial(Handler().method),
    }

    class Batch:
        @property
        def dtype(self):
            signal.raise_signal(signal.SIGUSR1)
            return torch.float32

        shape = (2, 4)

    before = signal.signal(signal.SIGUSR1, handlers[kind])
    try:
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            step(model, optimizer, torch.ones(2, 4))
        for _ in range(2 * guard.PATIENCE):
            with pytest.raises(DeadlineError):
                model(Batch())
        assert guard.site("model call").on
        assert not guard.failures()
        step(model, optimizer, torch.ones(2, 4))
        assert tapped.ended.steps == 3
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_model_after_another_is_counted_from_its_first_batch(tapped, agent, written):
    """Folds, or a sweep in one process; the models before are kept. The description is the same: so are the FLOPs."""
    kept = []
    for fold in range(3):
        model = nn.Sequential(nn.Embedding(16, 8), nn.Linear(8, 16))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        kept.append(model)
        for _ in range(4):
            step(model, optimizer, torch.arange(8).view(2, 4))
        assert (agent.ended.steps, agent.ended.tokens, agent.ended.unseen) == (4 * (fold + 1), 32 * (fold + 1), 0)
    assert [record.tokens for record in written().records] == [8] * 12


def test_another_class_of_model_after_the_first_is_counted_from_its_first_batch(tapped, agent):
    first = nn.Embedding(16, 8)
    optimizer = torch.optim.SGD(first.parameters(), lr=0.1)
    for _ in range(3):
        step(first, optimizer, torch.arange(8).view(2, 4))
    second = nn.Sequential(nn.Embedding(16, 4), nn.Linear(4, 16))
    optimizer = torch.optim.AdamW(second.parameters(), lr=0.1)
    for _ in range(3):
        step(second, optimizer, torch.arange(12).view(3, 4))
    assert (agent.ended.steps, agent.ended.tokens, agent.ended.unseen) == (6, 3 * 8 + 3 * 12, 0)


def test_steps_whose_batches_nobody_saw_leave_the_tokens_out(tapped, agent):
    """Neither 0 nor those that were seen: a count that lacks some is no count."""
    model = nn.Embedding(16, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        step(model, optimizer, torch.arange(8).view(2, 4))
    model.forward(torch.arange(8).view(2, 4)).sum().backward()
    optimizer.step()
    told = agent.publish().passport()
    assert told["data"]["steps"]["value"] == 4
    assert told["data"]["tokens"] is None or told["data"]["tokens"]["value"] is None
    assert told["data"]["batches"] is None
    row = agent.publish().row(final=True)
    assert row["trainmeter/step"] == 4
    assert not {"trainmeter/tokens", "trainmeter/samples", "trainmeter/flops"} & row.keys()
