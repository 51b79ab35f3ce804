"""The matmuls and tables of a model as its modules show them; their roles by the names in use, as data."""

from __future__ import annotations

from typing import Any, Iterable, Mapping, NamedTuple, Sequence

from trainmeter_core.model_shape import TOKENS, Component, Lookup, Matmul, Scan, Stream

from .attention_seen import CoreSeen, cores_in, frozen_in
from .config_facts import first, first_of
from .looked import stream_of_entry
from .roles import LINEARS, OTHER_TABLES, POSITION_TABLES, Entry, parts_of, role_of
from .streams import BESIDE_THE_TEXT, CROSS_ATTENTION, NOT_RUN, Layout, conv_stream, stream_of

SCAN = "7 per channel and state"
DELTA_RULE = "8 per head, key and value width"


class Seen(NamedTuple):
    """What the modules show.  frozen: layers whose q, k, v need no gradient.  gap: what is not visible, or empty."""

    components: list[Component]
    cores: list[CoreSeen]
    frozen: dict[str, int]
    gap: str


def seen_in(entries: Sequence[Entry], config: Mapping[str, Any], layout: Layout) -> Seen:
    """Every matmul, scan and table of the modules, on its stream; the config tells how many experts are active."""
    tables = [entry for entry in entries if entry["kind"] == "embedding" and not entry["tied"]]
    lookups = [_lookup(entry, beside=is_beside(entry, layout)) for entry in tables]
    vocabularies = frozenset(table.rows for table in lookups if table.role == "token")
    experts, active = first(config, "experts"), first(config, "active")
    components: list[Component] = list(lookups)
    gap = ""
    for entry in entries:
        kind = entry["kind"]
        if is_beside(entry, layout) and kind not in (*LINEARS, "conv", "mha"):
            continue
        if NOT_RUN.intersection(parts_of(entry)):
            continue
        if kind == "experts" and ".parametrizations." in str(entry["names"]):
            continue  # a convolution's weight and its norm, which are counted as that convolution
        if kind == "experts" and "expert" not in str(entry["names"]):
            gap = f"the weights of {entry['names']} are not in a module of a known kind"
        elif kind == "experts" or (kind in LINEARS and _is_expert(entry)):
            many = int(entry["shape"][0]) if kind == "experts" else experts
            if not many or not active or (kind != "experts" and int(entry["count"]) % many):
                gap = "how many experts a token passes through is not visible without a config"
                continue
            components.append(_experts(entry, many, active, layout))
        elif kind in LINEARS:
            components.append(_linear(entry, vocabularies, layout))
        elif kind == "mha":
            components += _mha(entry, layout)
        elif kind == "rnn":
            components += _recurrent(entry, layout)
        elif kind == "conv":
            components.append(_conv(entry, layout))
        components += _scans(entry, config, layout)
    text = [entry for entry in entries if not is_beside(entry, layout)]
    return Seen(components, cores_in(text), frozen_in(text), gap)


def is_beside(entry: Entry, layout: Layout) -> bool:
    """Whether the module belongs to an encoder of pictures or sound beside the text."""
    return layout.beside and bool(BESIDE_THE_TEXT.intersection(parts_of(entry)))


def _flags(entry: Entry) -> tuple[bool, bool]:
    return bool(entry["trainable"]), bool(entry["input_grad"])


def _lookup(entry: Entry, *, beside: bool) -> Lookup:
    rows, width = entry["shape"]
    parts = parts_of(entry)
    if beside:
        return Lookup("beside", int(rows), int(width), int(entry["count"]))
    role = "position" if parts[-1] in POSITION_TABLES else "other" if OTHER_TABLES.intersection(parts) else "token"
    return Lookup(role, int(rows), int(width), int(entry["count"]))


def _linear(entry: Entry, vocabularies: Iterable[int], layout: Layout) -> Matmul:
    outputs, inputs = (int(n) for n in entry["shape"])
    trainable, grad = (False, False) if layout.unread.intersection(parts_of(entry)) else _flags(entry)
    role = role_of(entry, vocabularies)
    return Matmul(
        role,
        inputs,
        outputs,
        int(entry["count"]),
        stream=_stream_of(entry, role, layout),
        bias=bool(entry["bias"]),
        tied=bool(entry["tied"]),
        trainable=trainable,
        input_grad=grad,
    )


def _stream_of(entry: Entry, role: str, layout: Layout, key: str = "positions") -> Stream:
    if layout.look is not None:
        return stream_of_entry(entry, layout.look, TOKENS if layout.look.length else None, key)
    return stream_of(parts_of(entry), role, layout)


def _is_expert(entry: Entry) -> bool:
    return ".experts.*." in str(entry["names"])


def _experts(entry: Entry, experts: int, active: int, layout: Layout) -> Matmul:
    """One stacked parameter of all experts, or the linear layers of separate ones."""
    outputs, inputs = (int(n) for n in entry["shape"][-2:])
    trainable, grad = _flags(entry)
    return Matmul(
        f"experts.{str(entry['names']).rpartition('.')[2]}",
        inputs,
        outputs,
        int(entry["count"]) // (1 if entry["kind"] == "experts" else experts),
        experts=experts,
        active=active,
        stream=layout.main,
        bias=bool(entry["bias"]),
        tied=bool(entry["tied"]),
        trainable=trainable,
        input_grad=grad,
    )


def _recurrent(entry: Entry, layout: Layout) -> list[Component]:
    """An LSTM, GRU or RNN: in each layer and direction one weight from the input and one from the state, per gate."""
    hidden, width = (int(n) for n in entry["shape"])
    gates = 4 if "LSTM" in entry["mode"] else 3 if "GRU" in entry["mode"] else 1
    directions = 2 if entry["bidirectional"] else 1
    state = int(entry["proj_size"]) or hidden
    bias, (trainable, input_grad) = bool(entry["bias"]), _flags(entry)
    components: list[Component] = []
    stream = TOKENS if layout.look is None else _stream_of(entry, "", layout)
    for layer in range(int(entry["num_layers"])):
        inputs, count = (state * directions if layer else width), directions * int(entry["count"])
        grad = input_grad or (trainable and layer > 0)
        common = (gates * hidden, count)
        flags: dict[str, Any] = {"stream": stream, "trainable": trainable}
        components.append(Matmul("recurrent.input", inputs, *common, bias=bias, input_grad=grad, **flags))
        components.append(Matmul("recurrent.state", state, *common, bias=bias, **flags))
        if entry["proj_size"]:
            components.append(Matmul("recurrent.projection", hidden, state, count, **flags))
    return components


def _conv(entry: Entry, layout: Layout) -> Matmul:
    """A convolution as a matmul at each output position, or at each input position when it is transposed."""
    outputs, inputs = (int(n) for n in entry["shape"])
    size = 1
    for n in entry["kernel"]:
        size *= int(n)
    groups, transposed = int(entry["groups"]), bool(entry["transposed"])
    parts, (trainable, grad) = parts_of(entry), _flags(entry)
    stream = conv_stream(parts, layout) if layout.look is None else _stream_of(entry, "", layout)
    # On pixels or sound, which need no gradient.
    is_first = stream is not None and stream in (layout.patch, layout.frames)
    part = "patch" if stream is not None and stream == layout.patch else "conv"
    if parts[-1] == "conv1d":
        part = "linear_attention" if "linear_attn" in parts else "ssm"
    return Matmul(
        f"{part}.conv",
        inputs if transposed else inputs // groups * size,
        outputs // groups * size if transposed else outputs,
        int(entry["count"]),
        stream=stream or Stream(f"the feature map of {entry['names']}"),
        bias=bool(entry["bias"]) and not transposed,
        trainable=trainable,
        input_grad=grad and not is_first,
    )


def _scans(entry: Entry, config: Mapping[str, Any], layout: Layout) -> list[Component]:
    """The recurrence of an SSM or a gated delta rule, where a module bears its decay `A_log`."""
    decay = (entry.get("parameters") or {}).get("A_log")
    if not decay:
        return []
    count = int(entry["count"])
    if len(decay) > 1:  # one decay per channel and state: Mamba
        return [Scan("ssm.scan", 7 * int(decay[0]) * int(decay[1]), SCAN, count, layout.main)]
    heads = int(decay[0])
    key, value = first_of(config, "linear_key_head_dim"), first_of(config, "linear_value_head_dim")
    if key and value:
        return [Scan("linear_attention.scan", 8 * heads * key * value, DELTA_RULE, count, layout.main)]
    state = next((n for name in STATES for n in [first_of(config, name)] if n), 0)
    width = next((n for name in HEAD_WIDTHS for n in [first_of(config, name)] if n), 0)
    return [Scan("ssm.scan", 7 * heads * width * state, SCAN, count, layout.main)] if state and width else []


STATES = ("mamba_d_state", "ssm_state_size", "state_size")
HEAD_WIDTHS = ("mamba_d_head", "mamba_head_dim", "head_dim")


def _mha(entry: Entry, layout: Layout) -> list[Component]:
    """An nn.MultiheadAttention: packed q, k, v weights; its output projection is a linear layer of its own."""
    outputs, inputs = (int(n) for n in entry["shape"])
    parts, (trainable, grad) = parts_of(entry), _flags(entry)

    def packed(role: str, rows: int, key: str = "positions") -> Matmul:
        return Matmul(
            role,
            inputs,
            rows,
            int(entry["count"]),
            stream=_stream_of(entry, role, layout, key),
            bias=bool(entry["bias"]),
            trainable=trainable,
            input_grad=grad,
        )

    if CROSS_ATTENTION.intersection(parts) or entry.get("positions") != entry.get("key_positions"):
        # The queries are on one stream, keys and values on another.
        return [packed("attention.q", inputs), packed("attention.k", outputs - inputs, "key_positions")]
    return [packed("attention.qkv", outputs)]
