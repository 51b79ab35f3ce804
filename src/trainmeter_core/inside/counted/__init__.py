"""Counts what one training pass of a model executes, on a copy without data: the user's own step is never touched.

Loaded only when counting was asked for; everything here may import torch.
"""

from __future__ import annotations

import contextlib
import logging
import random
import sys
import warnings
from time import monotonic
from typing import Any, Iterator, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from .call import Call, NotSeen, TensorFacts, facts_of, made_of
from .counter import Counter, GaveUp
from .stand_in import StandIn, unwrapped

__all__ = ["Call", "Counted", "NotSeen", "count", "facts_of"]

# Twelve layers take about a second, eighty about five.
LIMIT_S = 5.0
MOST_BYTES = 1 << 30


class Counted(NamedTuple):
    """FLOPs of one forward and backward pass as executed, recomputation included; None, and why, when it failed.

    gaps: operations without a formula that ran, as `namespace::name` with how often.
    """

    flops: int | None
    gaps: dict[str, int]
    seconds: float
    absent: str = ""


def count(model: Any, call: Call, limit_s: float = LIMIT_S, most_bytes: int = MOST_BYTES) -> Counted:
    """Run one call of the model and its backward pass on fakes, and add up torch's formulas over what ran.

    The backward pass starts at the model's own loss (`output.loss`, or a scalar output), else at all of its
    outputs: a loss outside of the model has no matmul but is not counted if it had. Multiplications by a causal mask's
    zeros are counted, and a flash kernel's second look at the scores is. Gives up past `limit_s` seconds or
    `most_bytes` of memory. Never raises for anything the model does.
    """
    start = monotonic()
    counter = Counter(start + limit_s, most_bytes)
    try:
        with _untouched(), FakeTensorMode() as mode:
            # A kernel outside of torch must fail where it asks for memory, not read at address 0 of the device.
            mode._allow_unsafe_data_ptr_access = False  # noqa: SLF001 - torch has a switch for the whole process only
            stand_in = StandIn(mode)
            copy = stand_in.model(unwrapped(model))
            device = next((p.device for p in copy.parameters()), torch.device("cpu"))
            args = [made_of(facts, _fake) for facts in call.args]
            kwargs = {name: made_of(facts, _fake) for name, facts in call.kwargs.items()}
            with counter, _autocast(call, device.type):
                torch.autograd.backward(*_start_of_backward(copy(*args, **kwargs)))
    except GaveUp as why:
        return Counted(None, counter.gaps, monotonic() - start, str(why))
    except Exception as error:  # noqa: BLE001 - a model may do anything with a tensor that has no data
        return Counted(None, counter.gaps, monotonic() - start, _reason(error))
    return Counted(counter.flops, counter.gaps, monotonic() - start)


def _fake(facts: TensorFacts) -> Any:
    return torch.empty(tuple(facts.shape), dtype=facts.dtype, device=facts.device, requires_grad=facts.requires_grad)


def _start_of_backward(output: Any) -> tuple[list[Any], list[Any]]:
    """Where the backward pass begins, and the gradients there: the model's own loss, else all of its outputs."""
    loss = getattr(output, "loss", None)
    if loss is None and isinstance(output, dict):
        loss = output.get("loss")
    found = list(_with_gradient(output if loss is None else loss, 4))
    if not found:
        raise ValueError("no output of the model has a gradient")
    starts = [tensor for tensor in found if tensor.dim() == 0][:1] or found
    return starts, [torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in starts]


def _with_gradient(output: Any, depth: int) -> Iterator[Any]:
    if isinstance(output, torch.Tensor):
        if output.requires_grad:
            yield output
    elif depth and isinstance(output, dict):
        for value in output.values():
            yield from _with_gradient(value, depth - 1)
    elif depth and isinstance(output, (list, tuple)):
        for value in output:
            yield from _with_gradient(value, depth - 1)


@contextlib.contextmanager
def _untouched() -> Iterator[None]:
    """Whatever runs inside, random states, gradient mode, compilation and stderr are the user's again afterwards."""
    states = [(random.getstate, random.setstate), (torch.get_rng_state, torch.set_rng_state)]
    if torch.cuda.is_initialized():
        states.append((torch.cuda.get_rng_state, torch.cuda.set_rng_state))
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        states.append((numpy.get_state, numpy.set_state))
    kept = [(put, take()) for take, put in states]
    # Nothing compiled may meet a fake: it would be compiled anew for it, and then again for the user.
    eager = torch.compiler.set_stance("force_eager") if _compiles() else contextlib.nullcontext()
    show, log = warnings.showwarning, logging.getLogger("torch._subclasses.fake_tensor")
    silent, log.disabled = log.disabled, True
    warnings.showwarning = _no_warning
    try:
        with eager, torch.enable_grad():
            yield
    finally:
        warnings.showwarning, log.disabled = show, silent
        for put, state in kept:
            put(state)


def _no_warning(*_: Any, **__: Any) -> None:
    """What the model warns of, it has warned of in the real step."""


def _compiles() -> bool:
    return "torch._dynamo" in sys.modules and hasattr(torch.compiler, "set_stance")


def _autocast(call: Call, device: str) -> Any:
    if call.autocast is None:
        return contextlib.nullcontext()
    return torch.autocast(device, dtype=call.autocast, cache_enabled=False)


def _reason(error: Exception) -> str:
    text = str(error).split("\n", 1)[0][:200]
    kind = type(error).__name__
    if "DataDependent" in kind or "DynamicOutputShape" in kind:
        return "what the model computes depends on its data (" + (text or kind) + ")"
    if "data pointer" in text or "data_ptr" in text:
        return "a kernel outside of torch reads its tensors' memory (" + text + ")"
    return kind + ": " + text
