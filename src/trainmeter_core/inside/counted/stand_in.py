"""A copy of a model whose tensors are fake: shapes, dtypes and devices, no memory; the original is only read."""

from __future__ import annotations

import functools
import types
from typing import Any, Callable

import torch

_WRAPPERS = ("OptimizedModule", "DistributedDataParallel", "DataParallel", "DeepSpeedEngine")
_INNER = ("_orig_mod", "module")
_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks_with_kwargs",
)
# Hugging Face makes embeddings' output need a gradient; that one hook decides what autograd computes.
_KEPT_HOOK = "make_inputs_require_grads"
_DEPTH = 4
_PLAIN = (int, float, bool, str, bytes, complex, type(None), torch.dtype, torch.device, torch.Size)


def unwrapped(model: Any) -> Any:
    """The module whose forward pass the wrappers (compiled, data parallel) run; PEFT's stay, for they compute."""
    for _ in range(8):  # wrappers nest two or three deep; a bound keeps a cycle from holding us
        if type(model).__name__ not in _WRAPPERS:
            break
        inner = next((model._modules[name] for name in _INNER if name in model._modules), None)  # noqa: SLF001 - as torch keeps them
        if inner is None:
            break
        model = inner
    return model


class StandIn:
    """Makes fakes in `mode`, each original once; everything that can be written to is copied, nothing is shared.

    Hooks are left out, so that none of the user's or of a sharding's runs: no gather, no logging.
    Raises ValueError for a model whose parameters do not tell their shape.
    """

    def __init__(self, mode: Any) -> None:
        self._mode = mode
        self._made: dict[int, Any] = {}
        self._keep: list[Any] = []  # an id stands for an object only while that lives

    def model(self, original: Any) -> Any:
        """A module of the same class over fake parameters, in the same mode of training."""
        _refuse(original)
        return self._module(original)

    def tensor(self, original: Any) -> Any:
        """A fake of the whole tensor, also where this rank holds a shard of it."""
        made = self._made.get(id(original))
        if made is not None:
            return made
        is_parameter = isinstance(original, torch.nn.Parameter)
        size = getattr(original, "ds_shape", None) or original.shape
        with self._mode:
            fake = torch.empty(tuple(size), dtype=original.dtype, device=original.device)
            if is_parameter:
                fake = torch.nn.Parameter(fake, requires_grad=original.requires_grad)
            elif original.requires_grad:
                fake.requires_grad_()
        return self._remember(original, fake)

    def _remember(self, original: Any, made: Any) -> Any:
        self._made[id(original)] = made
        self._keep.append(original)
        return made

    def _module(self, original: Any) -> Any:
        made = self._made.get(id(original))
        if made is not None:
            return made
        made = self._remember(original, object.__new__(type(original)))
        own: dict[str, Any] = {}
        object.__setattr__(made, "__dict__", own)
        for name, value in original.__dict__.items():
            if name in _HOOKS:
                own[name] = type(value)(_kept(value)) if isinstance(value, dict) else value
            elif name == "_compiled_call_impl":
                own[name] = None
            else:
                own[name] = self.value(value, _DEPTH)
        return made

    def value(self, value: Any, depth: int) -> Any:
        """The value with every tensor and module in it replaced; what cannot hold one is shared."""
        if isinstance(value, _PLAIN):
            return value
        if isinstance(value, torch.nn.Module):
            return self._module(value)
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        made = self._made.get(id(value))
        if made is not None or not depth:
            return value if made is None else made
        if isinstance(value, types.MethodType):
            return types.MethodType(value.__func__, self.value(value.__self__, depth - 1))
        if isinstance(value, functools.partial):
            return self._partial(value, depth - 1)
        return self._container(value, depth - 1)

    def _partial(self, value: Any, depth: int) -> Any:
        args = [self.value(each, depth) for each in value.args]
        named = {name: self.value(each, depth) for name, each in value.keywords.items()}
        return functools.partial(self.value(value.func, depth), *args, **named)

    def _container(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if isinstance(value, dict):
            return self._filled(value, lambda made: made.update((k, self.value(v, depth)) for k, v in value.items()))
        if kind is list:
            return self._filled(value, lambda made: made.extend(self.value(each, depth) for each in value))
        if kind in (tuple, set, frozenset):
            return kind(self.value(each, depth) for each in value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return kind(*(self.value(each, depth) for each in value))
        return value

    def _filled(self, value: Any, fill: Callable[[Any], None]) -> Any:
        try:
            made = value.copy()
            made.clear()
        except (AttributeError, TypeError, ValueError):
            # A mapping of its own kind, which may not be copied or emptied.
            return value
        self._remember(value, made)
        fill(made)
        return made


def _kept(hooks: Any) -> Any:
    return ((key, hook) for key, hook in hooks.items() if getattr(hook, "__name__", "") == _KEPT_HOOK)


def _refuse(model: Any) -> None:
    for name, parameter in model.named_parameters():
        if type(parameter).__name__ == "FlatParameter" or "_flat_param" in name:
            raise ValueError("FSDP1 keeps its parameters flat, without their shapes")
        if getattr(parameter, "quant_state", None) is not None:
            raise ValueError("quantized parameters are packed: " + name)
