"""What the first training call of a model showed: each module's positions, and the attention that autograd recorded."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence

from trainmeter_core.model_shape import SAMPLES, TARGET, TOKENS, AttentionCore, Batch, Stream

_ROW = 9
NO_PRODUCT = "activations are multiplied with each other where no attention is known by the names of the modules"
NO_MODULE = "weights are multiplied where no module of a known kind is called"


class Look(NamedTuple):
    """A description's `look`.

    samples, length, target: of the batch.  sizes_vary: whether other calls were given tensors of other sizes.
    linear_calls: matrix products that modules account for at most.  plain: those of a weight that autograd recorded.
    product_flops: of those of two activations, forward, or None where not all tell.  attention: the fused ones.
    opaque: nodes that hide what they do.  recorded: whether there are the last four.
    causal: what a mask among the buffers or the attentions themselves say.
    """

    samples: int
    length: int
    target: int
    sizes_vary: bool
    linear_calls: int
    plain: int
    product_flops: int | None
    attention: tuple[Sequence[Any], ...]
    opaque: tuple[str, ...]
    recorded: bool
    causal: bool | None


def look_of(description: Mapping[str, Any]) -> Look | None:
    """The look in a description, or None. Raises KeyError, TypeError or ValueError for one that is none."""
    look = description.get("look")
    if not look:
        return None
    rows = tuple(look.get("attention") or ())
    if any(len(row) != _ROW for row in rows):
        raise ValueError("not an attention that was seen")
    return Look(
        int(look["samples"]),
        int(look["length"]),
        int(look["target"]),
        bool(look["sizes_vary"]),
        int(look["linear_calls"]),
        int(look.get("plain") or 0),
        None if look.get("product_flops") is None else int(look["product_flops"]),
        rows,
        tuple(look.get("opaque") or ()),
        "attention" in look,
        look.get("causal"),
    )


def stream_at(positions: Any, what: str, look: Look) -> Stream:
    """The stream of so many positions per sample; one without a length where these were not seen to be fixed."""
    if positions is None:
        return Stream(f"{what}, which are not the same for every sample")
    n = int(positions)
    known = {look.target: TARGET, look.length: TOKENS, 1: SAMPLES}.get(n) if n else None
    if known is not None:
        return known
    return Stream(f"{what}, whose inputs change their size") if look.sizes_vary else Stream(f"{n} positions", n, True)


def stream_of_entry(entry: Mapping[str, Any], look: Look, default: Stream | None, key: str = "positions") -> Stream:
    """The stream of a module's input (a convolution's output)."""
    what = f"the feature map of {entry['names']}" if entry["kind"] == "conv" else str(entry["names"])
    if key not in entry:
        return default or Stream(f"{what}, which was not called outside of compiled code")
    return stream_at(entry[key], what, look)


def cores_seen(look: Look, named: Sequence[AttentionCore]) -> tuple[Sequence[AttentionCore], str]:
    """The attention of a model whose config does not tell it, and why it is not known.

    named: by the names of modules. It is believed where it explains every product that autograd recorded, and where
    that is hidden; fused attention is as it was recorded.
    """
    if not look.recorded or any(name.startswith("ScaledDotProduct") for name in look.opaque):
        return named, ""
    if look.attention:
        return _fused(look) if look.product_flops == 0 else ([], NO_PRODUCT)
    if look.product_flops == 0 and look.opaque:
        return named, ""
    batch = Batch(look.samples, look.length or 1, look.target)
    streams = [stream for core in named for stream in (core.queries, core.keys)]
    if not all(stream.is_known(batch) for stream in streams):
        return named, ""
    flops = sum(
        2 * core.queries.positions(batch) * core.keys.padded(batch) * (core.qk_width + core.v_width) * core.count
        for core in named
    )
    return (named, "") if flops == look.product_flops else ([], NO_PRODUCT if look.product_flops != 0 else "")


def _fused(look: Look) -> tuple[list[AttentionCore], str]:
    cores = []
    for batch, heads, queries, keys, qk_width, v_width, causal, grads, many in look.attention:
        if batch % look.samples or (causal and queries != keys):
            return [], "the attention's own batches are not the model's"
        cores.append(
            AttentionCore(
                heads * qk_width,
                heads * v_width,
                heads,
                count=many * (batch // look.samples),
                causal=causal,
                queries=stream_at(queries, "the queries of an attention", look),
                keys=stream_at(keys, "the keys of an attention", look),
                q_grad="q" in grads,
                k_grad="k" in grads,
                v_grad="v" in grads,
            )
        )
    return cores, ""


def unknown_products(look: Look, entries: Sequence[Mapping[str, Any]]) -> str:
    """Why not every product of a weight is known: more of them were recorded than modules were called."""
    recurrent = any(entry["kind"] == "rnn" for entry in entries)  # made of as many products as there are positions
    return NO_MODULE if look.recorded and not recurrent and look.plain > look.linear_calls else ""
