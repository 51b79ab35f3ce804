"""The matmuls and tables of a model as its modules show them; their roles by the names in use, as data."""

from __future__ import annotations

from typing import Any, Iterable, Mapping, NamedTuple, Sequence

from trainmeter_core.model_shape import Component, Lookup, Matmul, Scan, Stream

from .config_facts import first, first_of
from .streams import CROSS_ATTENTION, Layout, conv_stream, stream_of

Entry = Mapping[str, Any]
"""One entry of a description's `modules`."""

_NAMES: dict[str, str] = {
    "attention.qkv": "c_attn qkv qkv_proj query_key_value Wqkv att_proj attn.in_proj",
    "attention.q": "q_proj q query wq c_q to_q q_lin linear_q",
    "attention.k": "k_proj k key wk c_k to_k k_lin linear_k",
    "attention.v": "v_proj v value wv c_v to_v v_lin linear_v",
    "attention.o": "o_proj wo out_lin to_out o linear_out attn.c_proj attention.dense self_attention.dense "
    "self_attn.dense attn.out_proj self_attn.out_proj encoder_attn.out_proj attn.proj attention.output.dense",
    "attention.q_down": "q_a_proj wq_a",
    "attention.q_up": "q_b_proj wq_b",
    "attention.kv_down": "kv_a_proj_with_mqa wkv_a",
    "attention.kv_up": "kv_b_proj wkv_b",
    "mlp.gate_up": "gate_up_proj",
    "mlp.gate": "gate_proj w1 c_gate wi_0",
    "mlp.up": "up_proj w3 c_fc fc1 fc_in dense_h_to_4h linear1 lin1 wi wi_1 intermediate.dense",
    "mlp.down": "down_proj w2 fc2 fc_out dense_4h_to_h linear2 lin2 mlp.c_proj mlp.wo mlp.proj DenseReluDense.wo "
    "output.dense",
    "router.weight": "router gate",
    "router.shared_gate": "shared_expert_gate",
    "head.weight": "lm_head embed_out unembed unembedding",
    "ssm.in": "mixer.in_proj mamba.in_proj",
    "ssm.out": "mixer.out_proj mamba.out_proj",
    "ssm.x": "x_proj",
    "ssm.dt": "dt_proj",
    "linear_attention.in": "in_proj_qkvz in_proj_ba in_proj_qkv in_proj_z in_proj_a in_proj_b",
    "linear_attention.out": "linear_attn.out_proj",
}
# Name endings, longest first in a lookup: `attn.c_proj` is the attention's output, `mlp.c_proj` the MLP's.
ROLES: dict[tuple[str, ...], str] = {
    tuple(name.split(".")): role for role, names in _NAMES.items() for name in names.split()
}
POSITION_TABLES = frozenset(
    (
        "wpe",
        "pos_emb",
        "position_embeddings",
        "position_embedding",
        "embed_positions",
        "pos_embed",
        "positional_embedding",
        "pos_embedding",
        "position_embed",
        "pos_embeddings",
    )
)
OTHER_TABLES = frozenset(("token_type_embeddings", "relative_attention_bias", "segment_embeddings", "value_embeds"))
LORA_SIDES = ("lora_A", "lora_B")
SCAN = "7 per channel and state"
DELTA_RULE = "8 per head, key and value width"


class CoreSeen(NamedTuple):
    """One kind of attention that is clear from names and shapes; `cross` over the encoder's positions."""

    layers: int
    qk_width: int
    v_width: int
    heads: int | None
    in_encoder: bool
    cross: bool


class Seen(NamedTuple):
    """What the modules show.  frozen: layers whose q, k, v need no gradient.  gap: what is not visible, or empty."""

    components: list[Component]
    cores: list[CoreSeen]
    frozen: dict[str, int]
    gap: str


def seen_in(entries: Sequence[Entry], config: Mapping[str, Any], layout: Layout) -> Seen:
    """Every matmul, scan and table of the modules, on its stream; the config tells how many experts are active."""
    lookups = [_lookup(entry) for entry in entries if entry["kind"] == "embedding" and not entry["tied"]]
    vocabularies = frozenset(table.rows for table in lookups if table.role == "token")
    experts, active = first(config, "experts"), first(config, "active")
    components: list[Component] = list(lookups)
    gap = ""
    for entry in entries:
        kind = entry["kind"]
        if kind == "experts" or (kind in LINEARS and _is_expert(entry)):
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
            components += _recurrent(entry)
        elif kind == "conv":
            components.append(_conv(entry, layout))
        components += _scans(entry, config, layout)
    return Seen(components, _cores(entries), _frozen(entries), gap)


LINEARS = ("linear", "conv1d_hf")


def parts_of(entry: Entry) -> list[str]:
    """The parts of a module's name, without numbers and without PEFT's own."""
    parts = [part for part in str(entry["names"]).split(".") if part not in ("*", "base_layer")]
    for side in LORA_SIDES:
        if side in parts:
            return parts[: parts.index(side)]
    return parts or [""]


def role_of(entry: Entry, vocabularies: Iterable[int] = ()) -> str:
    """The role of a linear layer by its name; `head.weight` also for a tied one; `linear.<name>` when unknown."""
    for side in LORA_SIDES:
        if f".{side}." in f"{entry['names']}.":
            return f"adapter.{side[-1]}"
    parts = parts_of(entry)
    if entry["shape"][0] in set(vocabularies) and (entry["tied"] or len(_below_top(parts)) == 1):
        return "head.weight"
    role = next((ROLES[end] for n in (3, 2, 1) for end in [tuple(parts[-n:])] if end in ROLES), "")
    if any("shared_expert" in part for part in parts[:-1]):
        return f"shared_experts.{role.rpartition('.')[2] or parts[-1]}"
    return role or f"linear.{parts[-1] or 'weight'}"


def _below_top(parts: Sequence[str]) -> list[str]:
    return [part for part in parts if part not in ("model", "module", "transformer", "cls", "predictions")]


def _flags(entry: Entry) -> tuple[bool, bool]:
    return bool(entry["trainable"]), bool(entry["input_grad"])


def _lookup(entry: Entry) -> Lookup:
    rows, width = entry["shape"]
    parts = parts_of(entry)
    role = "position" if parts[-1] in POSITION_TABLES else "other" if OTHER_TABLES.intersection(parts) else "token"
    return Lookup(role, int(rows), int(width), int(entry["count"]))


def _linear(entry: Entry, vocabularies: Iterable[int], layout: Layout) -> Matmul:
    outputs, inputs = (int(n) for n in entry["shape"])
    trainable, grad = _flags(entry)
    role = role_of(entry, vocabularies)
    return Matmul(
        role,
        inputs,
        outputs,
        int(entry["count"]),
        stream=stream_of(parts_of(entry), role, layout),
        bias=bool(entry["bias"]),
        tied=bool(entry["tied"]),
        trainable=trainable,
        input_grad=grad,
    )


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


def _recurrent(entry: Entry) -> list[Component]:
    """An LSTM, GRU or RNN: in each layer and direction one weight from the input and one from the state, per gate."""
    hidden, width = (int(n) for n in entry["shape"])
    gates = 4 if "LSTM" in entry["mode"] else 3 if "GRU" in entry["mode"] else 1
    directions = 2 if entry["bidirectional"] else 1
    state = int(entry["proj_size"]) or hidden
    bias, (trainable, input_grad) = bool(entry["bias"]), _flags(entry)
    components: list[Component] = []
    for layer in range(int(entry["num_layers"])):
        inputs, count = (state * directions if layer else width), directions * int(entry["count"])
        grad = input_grad or (trainable and layer > 0)
        common = (gates * hidden, count)
        components.append(Matmul("recurrent.input", inputs, *common, bias=bias, trainable=trainable, input_grad=grad))
        components.append(Matmul("recurrent.state", state, *common, bias=bias, trainable=trainable))
        if entry["proj_size"]:
            components.append(Matmul("recurrent.projection", hidden, state, count, trainable=trainable))
    return components


def _conv(entry: Entry, layout: Layout) -> Matmul:
    """A convolution as a matmul at each output position, or at each input position when it is transposed."""
    outputs, inputs = (int(n) for n in entry["shape"])
    size = 1
    for n in entry["kernel"]:
        size *= int(n)
    groups, transposed = int(entry["groups"]), bool(entry["transposed"])
    parts, (trainable, grad) = parts_of(entry), _flags(entry)
    stream = conv_stream(parts, layout)
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
        input_grad=grad,
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
    """An nn.MultiheadAttention: one packed q, k, v weight; its output projection is a linear layer of its own."""
    outputs, inputs = (int(n) for n in entry["shape"])
    trainable, grad = _flags(entry)
    stream = stream_of(parts_of(entry), "attention.qkv", layout)
    common = {"stream": stream, "bias": bool(entry["bias"])}
    count = int(entry["count"])
    return [Matmul("attention.qkv", inputs, outputs, count, trainable=trainable, input_grad=grad, **common)]  # type: ignore[arg-type]


def _cores(entries: Iterable[Entry]) -> list[CoreSeen]:
    """Attentions of linear layers with q, k, v under one name, or a fused qkv of 3 d outputs; and nn's own."""
    by_parent: dict[str, dict[str, list[Entry]]] = {}
    found: list[CoreSeen] = []
    for entry in entries:
        parts = parts_of(entry)
        where = ("encoder" in parts and "decoder" not in parts, bool(CROSS_ATTENTION.intersection(parts)))
        if entry["kind"] == "mha":
            width = int(entry["shape"][1])
            found.append(CoreSeen(int(entry["count"]), width, width, entry.get("heads"), *where))
        elif entry["kind"] in LINEARS and role_of(entry).startswith("attention."):
            parent = ".".join(parts[:-1])
            by_parent.setdefault(parent, {}).setdefault(role_of(entry), []).append(entry)
            outputs, inputs = entry["shape"]
            if role_of(entry) == "attention.qkv" and outputs == 3 * inputs:
                found.append(CoreSeen(int(entry["count"]), int(inputs), int(inputs), None, *where))
    for roles in by_parent.values():
        widths = {int(entry["shape"][1]) for entry in roles.get("attention.o", [])}
        if "attention.k" not in roles or "attention.v" not in roles:
            continue
        for entry in roles.get("attention.q", []):
            q, parts = int(entry["shape"][0]), parts_of(entry)
            where = ("encoder" in parts and "decoder" not in parts, bool(CROSS_ATTENTION.intersection(parts)))
            if not widths or q in widths:
                found.append(CoreSeen(int(entry["count"]), q, q, None, *where))
    return found


def _frozen(entries: Iterable[Entry]) -> dict[str, int]:
    """Layers in which q, k or v comes out without a gradient: frozen, on an input without one, and not adapted."""
    frozen = {"q": 0, "k": 0, "v": 0}
    for entry in entries:
        if entry["kind"] not in LINEARS or entry["input_grad"]:
            continue
        is_adapter = role_of(entry) == "adapter.A"
        if bool(entry["trainable"]) != is_adapter:
            continue
        plain = {**entry, "names": ".".join(parts_of(entry))}
        letters = {"attention.qkv": "qkv", "attention.q": "q", "attention.k": "k", "attention.v": "v"}
        for letter in letters.get(role_of(plain), ""):
            frozen[letter] += -int(entry["count"]) if is_adapter else int(entry["count"])
    return frozen
