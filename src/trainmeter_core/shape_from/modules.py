"""The matmuls and tables of a model as its modules show them; their roles by the names in use, as data."""

from __future__ import annotations

from typing import Any, Iterable, Mapping, NamedTuple

from trainmeter_core.model_shape import TOKENS, Component, Lookup, Matmul, Stream

Entry = Mapping[str, Any]
"""One entry of a description's `modules`."""

# Last part of a module's name -> role. Where one name has two meanings, the part before it decides (ROLES_UNDER).
ROLES: dict[str, str] = {
    **dict.fromkeys(
        ("c_attn", "qkv", "qkv_proj", "query_key_value", "Wqkv", "in_proj_qkv", "att_proj"), "attention.qkv"
    ),
    **dict.fromkeys(("q_proj", "q", "query", "wq", "c_q", "to_q", "q_lin", "q_b_proj", "linear_q"), "attention.q"),
    **dict.fromkeys(("k_proj", "k", "key", "wk", "c_k", "to_k", "k_lin", "linear_k"), "attention.k"),
    **dict.fromkeys(("v_proj", "v", "value", "wv", "c_v", "to_v", "v_lin", "linear_v"), "attention.v"),
    **dict.fromkeys(("o_proj", "wo", "out_lin", "to_out", "o", "linear_out"), "attention.o"),
    **dict.fromkeys(("q_a_proj", "wq_a"), "attention.q_down"),
    **dict.fromkeys(("kv_a_proj_with_mqa", "wkv_a"), "attention.kv_down"),
    **dict.fromkeys(("kv_b_proj", "wkv_b"), "attention.kv_up"),
    **dict.fromkeys(("gate_up_proj",), "mlp.gate_up"),
    **dict.fromkeys(("gate_proj", "w1", "c_gate"), "mlp.gate"),
    **dict.fromkeys(
        ("up_proj", "w3", "c_fc", "fc1", "fc_in", "dense_h_to_4h", "linear1", "lin1", "wi", "wi_1"), "mlp.up"
    ),
    **dict.fromkeys(("wi_0",), "mlp.gate"),
    **dict.fromkeys(("down_proj", "w2", "fc2", "fc_out", "dense_4h_to_h", "linear2", "lin2"), "mlp.down"),
    **dict.fromkeys(("router", "gate"), "router.weight"),
    **dict.fromkeys(("lm_head", "embed_out", "unembed", "unembedding"), "head.weight"),
}
ROLES_UNDER: dict[tuple[str, str], str] = {
    ("attn", "c_proj"): "attention.o",
    ("attention", "dense"): "attention.o",
    ("self_attention", "dense"): "attention.o",
    ("self_attn", "dense"): "attention.o",
    ("attn", "out_proj"): "attention.o",
    ("self_attn", "out_proj"): "attention.o",
    ("attn", "proj"): "attention.o",
    ("attn", "in_proj"): "attention.qkv",
    ("mlp", "c_proj"): "mlp.down",
    ("mlp", "wo"): "mlp.down",
    ("mlp", "proj"): "mlp.down",
    ("DenseReluDense", "wo"): "mlp.down",
    ("block_sparse_moe", "gate"): "router.weight",
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


class Seen(NamedTuple):
    """What the modules show: components, and the matmuls of each self-attention by role."""

    components: list[Component]
    cores: list[tuple[int, int, int, int | None]]
    """(layers, q width, v width, heads or None) of each kind of self-attention that is clear from names and shapes."""
    gap: str


def seen_in(modules: Iterable[Entry], experts: int | None = None, active: int | None = None) -> Seen:
    """Every matmul and table of the modules; experts, active: of each mixture layer, as the config tells them."""
    entries = list(modules)
    gap = ""
    lookups = [_lookup(entry) for entry in entries if entry["kind"] == "embedding" and not entry.get("tied")]
    vocabularies = {table.rows for table in lookups if table.role == "token"}
    components: list[Component] = list(lookups)
    cores: list[tuple[int, int, int, int | None]] = []
    for entry in entries:
        kind = entry["kind"]
        if kind == "experts" or (kind in ("linear", "conv1d_hf") and _is_expert(entry)):
            many = int(entry["shape"][0]) if kind == "experts" else experts
            if not many or not active or int(entry["count"]) % (1 if kind == "experts" else many):
                gap = "how many experts a token passes through is not visible without a config"
                continue
            components.append(_experts(entry, many, active))
        elif kind in ("linear", "conv1d_hf"):
            components.append(_linear(entry, vocabularies))
        elif kind == "rnn":
            components += _recurrent(entry)
        elif kind == "conv":
            components.append(_conv(entry))
        elif kind == "mha":
            components += _mha(entry)
            width = int(entry["shape"][1])
            cores.append((int(entry["count"]), width, width, entry.get("heads")))
    cores += _cores_by_name(entries)
    return Seen(components, cores, gap)


def role_of(entry: Entry, vocabularies: Iterable[int] = ()) -> str:
    """The role of a linear layer by its name; `head.weight` also for a tied one; `linear.<name>` when unknown."""
    parts = [part for part in str(entry["names"]).split(".") if part != "*"] or [""]
    last, parent = parts[-1], parts[-2] if len(parts) > 1 else ""
    if entry.get("tied") and entry["shape"][0] in set(vocabularies):
        return "head.weight"
    if any("shared_expert" in part for part in parts) and not last.endswith("_gate"):
        return f"shared_experts.{ROLES.get(last, last).rpartition('.')[2]}"
    role = ROLES_UNDER.get((parent, last)) or ROLES.get(last)
    if role:
        return role
    at_top = len([part for part in parts if part not in ("model", "module", "transformer")]) == 1
    if at_top and last in ("output", "head") and entry["shape"][0] in set(vocabularies):
        return "head.weight"
    return f"linear.{last or 'weight'}"


def _lookup(entry: Entry) -> Lookup:
    rows, width = entry["shape"]
    parts = [part for part in str(entry["names"]).split(".") if part != "*"] or [""]
    role = "position" if parts[-1] in POSITION_TABLES else "other" if OTHER_TABLES.intersection(parts) else "token"
    return Lookup(role, int(rows), int(width), int(entry["count"]))


def _linear(entry: Entry, vocabularies: Iterable[int], stream: Stream = TOKENS) -> Matmul:
    outputs, inputs = entry["shape"]
    return Matmul(
        role_of(entry, vocabularies),
        int(inputs),
        int(outputs),
        int(entry["count"]),
        stream=stream,
        bias=bool(entry["bias"]),
        tied=bool(entry.get("tied")),
        trainable=bool(entry["trainable"]),
        input_grad=bool(entry.get("input_grad", True)),
    )


def _is_expert(entry: Entry) -> bool:
    return ".experts.*." in str(entry["names"])


def _experts(entry: Entry, experts: int, active: int) -> Matmul:
    """One stacked parameter of all experts, or the linear layers of separate ones."""
    stacked = entry["kind"] == "experts"
    outputs, inputs = entry["shape"][-2:]
    return Matmul(
        f"experts.{str(entry['names']).rpartition('.')[2]}",
        int(inputs),
        int(outputs),
        int(entry["count"]) // (1 if stacked else experts),
        experts=experts,
        active=active,
        bias=bool(entry["bias"]),
        tied=bool(entry.get("tied")),
        trainable=bool(entry["trainable"]),
        input_grad=bool(entry.get("input_grad", True)),
    )


def _recurrent(entry: Entry) -> list[Component]:
    """An LSTM, GRU or RNN: in each layer and direction one weight from the input and one from the state, per gate."""
    hidden, width = (int(n) for n in entry["shape"])
    gates = 4 if "LSTM" in entry["mode"] else 3 if "GRU" in entry["mode"] else 1
    directions = 2 if entry["bidirectional"] else 1
    state = int(entry["proj_size"]) or hidden
    bias, trainable = bool(entry["bias"]), bool(entry["trainable"])
    components: list[Component] = []
    for layer in range(int(entry["num_layers"])):
        inputs, count = (state * directions if layer else width), directions * int(entry["count"])
        grad = bool(layer or entry.get("input_grad", True))
        components.append(
            Matmul("recurrent.input", inputs, gates * hidden, count, input_grad=grad, bias=bias, trainable=trainable)
        )
        components.append(Matmul("recurrent.state", state, gates * hidden, count, bias=bias, trainable=trainable))
        if entry["proj_size"]:
            components.append(Matmul("recurrent.projection", hidden, state, count, trainable=trainable))
    return components


def _conv(entry: Entry) -> Matmul:
    """A convolution as a matmul at each output position (input position when transposed), whose number is not seen."""
    outputs, inputs = (int(n) for n in entry["shape"])
    size = 1
    for n in entry["kernel"]:
        size *= int(n)
    groups = int(entry["groups"])
    transposed = bool(entry["transposed"])
    return Matmul(
        "conv.weight",
        inputs if transposed else inputs // groups * size,
        outputs // groups * size if transposed else outputs,
        int(entry["count"]),
        stream=Stream(f"the feature map of {entry['names']}"),
        bias=bool(entry["bias"]) and not transposed,
        trainable=bool(entry["trainable"]),
        input_grad=bool(entry.get("input_grad", True)),
    )


def _mha(entry: Entry) -> list[Component]:
    """An nn.MultiheadAttention: one packed q, k, v weight; its output projection is a linear layer of its own."""
    outputs, inputs = entry["shape"]
    return [
        Matmul(
            "attention.qkv",
            int(inputs),
            int(outputs),
            int(entry["count"]),
            bias=bool(entry["bias"]),
            trainable=bool(entry["trainable"]),
            input_grad=bool(entry.get("input_grad", True)),
        )
    ]


def _cores_by_name(entries: Iterable[Entry]) -> list[tuple[int, int, int, int | None]]:
    """Self-attentions of linear layers: a fused qkv of 3 d outputs, or a q whose width is the o's input."""
    linears = [entry for entry in entries if entry["kind"] in ("linear", "conv1d_hf")]
    by_parent: dict[str, dict[str, list[Entry]]] = {}
    for entry in linears:
        parent = str(entry["names"]).rpartition(".")[0]
        by_parent.setdefault(parent, {}).setdefault(role_of(entry), []).append(entry)
    found: list[tuple[int, int, int, int | None]] = []
    for roles in by_parent.values():
        fused, q, o = roles.get("attention.qkv", []), roles.get("attention.q", []), roles.get("attention.o", [])
        for entry in fused:
            outputs, inputs = entry["shape"]
            if outputs == 3 * inputs:
                found.append((int(entry["count"]), int(inputs), int(inputs), None))
        if "attention.k" in roles and "attention.v" in roles:
            out_inputs = {int(entry["shape"][1]) for entry in o}
            found += [
                (int(e["count"]), int(e["shape"][0]), int(e["shape"][0]), None)
                for e in q
                if not out_inputs or int(e["shape"][0]) in out_inputs
            ]
    return found
