"""What a training pass executes: `exact` and the forward work that activation checkpointing runs again, for HFU."""

from __future__ import annotations

from dataclasses import replace

from trainmeter_core.model_shape import AttentionCore, Batch, Matmul, ModelShape, Scan
from trainmeter_core.readings import Absent

from .exact import exact

ALL = (Matmul, AttentionCore, Scan)
RECOMPUTED = {"none": (), "attention": (AttentionCore,), "layers": ALL, "full": ALL}


def executed_flops(shape: ModelShape, batch: Batch, recompute: str) -> int | Absent:
    """`exact` plus one more forward pass of what is recomputed, in FLOPs of the whole batch.

    recompute: `none`, `attention` (the cores alone, selective checkpointing), `layers` (as Hugging Face's gradient
    checkpointing) or `full` (every layer and the head).
    Leaves out the scores that a flash kernel recomputes in its backward pass, and that the last operation of a
    checkpointed run need not be repeated. With everything trainable, full recomputation is 4/3 of `exact`.
    Source: Korthikanti et al. 2022, arXiv 2205.05198, appendix A. Raises KeyError for another name.
    """
    kinds = RECOMPUTED[recompute]
    once = exact(shape, batch)
    if isinstance(once, Absent):
        return once
    repeats = [c for c in shape.components if isinstance(c, kinds) and not _stays(c, recompute)]
    again = exact(replace(shape, components=tuple(_forward(c) for c in repeats)), batch)
    repeated = 0 if isinstance(again, Absent) else sum(term.flops for term in again)
    return sum(term.flops for term in once) + repeated


def _stays(component: object, recompute: str) -> bool:
    """Whether a component is outside of the layers that are recomputed."""
    return recompute == "layers" and isinstance(component, Matmul) and component.part in ("head", "patch")


def _forward(component: Matmul | AttentionCore | Scan) -> Matmul | AttentionCore | Scan:
    """The component as one that needs no gradient."""
    if isinstance(component, Matmul):
        return replace(component, trainable=False, input_grad=False)
    if isinstance(component, AttentionCore):
        return replace(component, q_grad=False, k_grad=False, v_grad=False)
    return replace(component, grad=False)
