"""A live model as plain data: its modules by kind, shape and name pattern, its config, its parameter counts.

Duck-typed, so that no torch import is needed; shapes only, never data, so that no device is waited for.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Collection, Iterator, Mapping

from .describe_config import attribute, config_of
from .describe_megatron import megatron_config
from .parallel import stages
from .weight_bytes import WeightBytes, reads_whole

if TYPE_CHECKING:
    from .first_look import FirstLook

MATRIX, STACKED = 2, 3
# Class in a module's MRO -> kind; the first match wins, so that a subclass of nn.Linear is a linear.
KINDS = (
    ("MultiheadAttention", "mha"),
    ("NonDynamicallyQuantizableLinear", "linear"),
    ("Linear", "linear"),
    ("Embedding", "embedding"),
    ("_ConvNd", "conv"),
    ("RNNBase", "rnn"),
    ("RNNCellBase", "rnn"),
)
POSITIONED = ("linear", "conv1d_hf", "conv", "mha", "rnn")
# Layers that read the same input as their sibling under the same parent: what one needs, the other needs.
SIBLINGS = {
    **dict.fromkeys(("q_proj", "k_proj", "v_proj", "query", "key", "value", "wq", "wk", "wv", "q", "k", "v"), "qkv"),
    **dict.fromkeys(("c_q", "c_k", "c_v", "q_lin", "k_lin", "v_lin"), "qkv"),
    **dict.fromkeys(("gate_proj", "up_proj", "w1", "w3", "wi_0", "wi_1"), "up"),
}
# A norm in front of a block is often registered behind it; T5's has one of these beside it.
FRONT_NORMS = ("input_layernorm", "ln_1", "norm1", "attention_norm", "layernorm_before", "self_attn_layer_norm")
T5_SUBLAYERS = ("SelfAttention", "EncDecAttention", "DenseReluDense")
# Of torch, DeepSpeed and Megatron, whose own has the name of torch's.
_WRAPPERS = ("DistributedDataParallel", "DataParallel", "FullyShardedDataParallel", "DeepSpeedEngine", "Float16Module")
CROSS_ATTENTION = ("EncDecAttention", "encoder_attn", "crossattention", "cross_attn")


def describe(root: Any, look: FirstLook | None = None, without: Collection[int] = ()) -> dict[str, Any]:
    """The description that `shape_from` documents; never raises for an odd module, whose entry is then left out.

    look: what the first training call of the model showed, if it was seen. without: ids of modules that are no part of
    the model, though they lie in it.
    """
    model = unwrapped(root)
    config, config_class = config_of(model)
    megatron = megatron_config(model)
    modules = [(name, module) for name, module in _named_modules(model) if id(module) not in without]
    walk = _Walk(model, modules, WeightBytes(root, (module for _, module in modules)), look)
    for name, module in _in_order(iter(modules)):
        walk.add(name, module)
    seen = {} if look is None else {"look": {**look.facts(), "causal": walk.causal()}}
    return {
        "class": type(model).__name__,
        "module": type(model).__module__,
        "config": megatron or config,
        "config_class": config_class,
        "main_input": _text(model, "main_input_name"),
        "params": walk.params(),
        "bytes": walk.bytes.table(),
        "modules": [] if megatron else list(walk.entries.values()),
        "dtype": max(walk.dtypes, key=walk.dtypes.__getitem__) if walk.dtypes else None,
        "skipped": walk.skipped,
        "recompute": _recompute(model),
        **({"stages": stages()} if stages() > 1 else {}),
        **seen,
    }


def _recompute(model: Any) -> str | None:
    """What a backward pass repeats: the layers, under Hugging Face's flag; None where nothing tells."""
    on = any(attribute(module, "gradient_checkpointing") is True for _, module in _named_modules(model))
    return "layers" if on else None


def unwrapped(model: Any) -> Any:
    """The user's own model under DistributedDataParallel, torch.compile, PEFT and the like."""
    for _ in range(8):  # wrappers nest two or three deep; a bound keeps a cycle from holding us
        inner = None
        name = type(model).__name__
        if name == "OptimizedModule":
            inner = getattr(model, "_orig_mod", None)
        elif name in _WRAPPERS:
            inner = getattr(model, "module", None)
        elif name.startswith("PeftModel"):
            inner = getattr(getattr(model, "base_model", None), "model", None)
        if inner is None:
            return model
        model = inner
    return model


def _named_modules(model: Any) -> Iterator[tuple[str, Any]]:
    """named_modules() of a torch module; nothing for any other object."""
    walk = getattr(model, "named_modules", None)
    return iter(()) if walk is None else iter(walk())


def _in_order(modules: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """The modules with each attention's output projection behind its inputs', however they were registered."""
    late: list[tuple[str, Any]] = []
    for name, module in modules:
        if late and not name.startswith(late[0][0].rpartition(".")[0] + "."):
            yield from late
            late = []
        if name.endswith(".o_proj") or (late and name.startswith(late[-1][0] + ".")):
            late.append((name, module))
        else:
            yield name, module
    yield from late


class _Walk:
    """The sums over one walk: entries by their key, parameters by identity."""

    def __init__(
        self, model: Any, modules: list[tuple[str, Any]], weight_bytes: WeightBytes, look: FirstLook | None = None
    ) -> None:
        self.bytes = weight_bytes
        self.look = look
        parameters = (p for _, module in modules for p in module._parameters.values() if p is not None)  # noqa: SLF001
        self.unread: set[int] = set() if look is None else look.unread(parameters)
        self.triangular = False
        """Whether a buffer holds a causal mask."""
        self.causal_flags: set[bool] = set()
        """What the attentions say of themselves, in the field's usual attribute."""
        # Hugging Face makes the embeddings' output need a gradient, for checkpointing over frozen weights.
        self.grad_from_start = bool(getattr(model, "_require_grads_hook", None))
        self.siblings: dict[tuple[str, str], bool] = {}
        self.fronts: set[str] = set()
        self.encoder_trains: bool | None = None  # known when the walk reaches the decoder
        self.entries: dict[tuple[Any, ...], dict[str, Any]] = {}
        self.dtypes: dict[str, int] = {}
        self.seen: dict[int, str] = {}
        self.total = self.trainable = self.lookup = self.position = self.norm_bias = self.skipped = 0
        self._kinds: dict[type, str] = {}
        from trainmeter_core.shape_from.roles import POSITION_TABLES  # not at start: it imports dataclasses

        self.position_tables = POSITION_TABLES

    def params(self) -> dict[str, int]:
        return {
            "total": self.total,
            "trainable": self.trainable,
            "lookup": self.lookup,
            "position_lookup": self.position,
            "norm_bias": self.norm_bias,
        }

    def causal(self) -> bool | None:
        """Whether the attentions are causal, by a mask among the buffers or by their own attribute."""
        if self.triangular:
            return True
        return self.causal_flags.pop() if len(self.causal_flags) == 1 else None

    def add(self, name: str, module: Any) -> None:
        """One module with its own parameters, without its children's; skipped when it does not answer."""
        try:
            self._add(name, module)
        except Exception:  # noqa: BLE001 - lazy, quantized or foreign modules answer with any error when asked a shape
            self.skipped += 1

    def _add(self, name: str, module: Any) -> None:
        kind = self._kind(type(module))
        self._look_ahead(name, module)
        if self.look is not None:
            self.triangular = self.triangular or _has_triangle(module)
            flag = attribute(module, "is_causal")
            self.causal_flags.update([flag] if isinstance(flag, bool) else [])
        own = {key: p for key, p in module._parameters.items() if p is not None}  # noqa: SLF001 - not the children's
        if not own and kind in ("other", "norm"):
            return
        weight = own.get("weight")
        input_grad = self._input_grad(name)
        seen = None if self.look is None else self.look.input_grad(module)
        input_grad = input_grad if seen is None else seen
        output_grad = input_grad or any(p.requires_grad for p in own.values())
        tied = weight is not None and id(weight) in self.seen
        common = {"tied": tied, "input_grad": input_grad, "output_grad": output_grad}
        trainable = (
            bool(weight.requires_grad) if weight is not None else any(p.requires_grad for p in _whole_of(module))
        )
        for key, p in own.items():
            size = _whole(kind, module, key) or _size(p)
            self._count(p, kind, name, size, is_bias=key.endswith("bias"))
            used = id(p) not in self.unread
            self.bytes.add(
                p,
                prod(size),
                read=reads_whole(kind, module, key, size),
                again=used and input_grad and "bias" not in key,
                trained=used and bool(p.requires_grad) and attribute(module, "sparse") is not True,
            )
        pattern = _pattern(name)
        stacks = {key: p for key, p in own.items() if _is_stack(_size(p))} if kind == "other" else {}
        for key, p in stacks.items():  # the experts of a mixture, one parameter for all of them
            bias = own.get(key + "_bias")
            many, outputs, inputs = _size(p)
            if bias is not None and _size(bias)[-1] == inputs:
                outputs, inputs = inputs, outputs
            biased = {"bias": bias is not None, "trainable": bool(p.requires_grad)}
            self._enter(module, "experts", f"{pattern}.{key}", [many, outputs, inputs], {**biased, **common})
        if stacks:
            return
        shape, extra = _shape(kind, module, own)
        if kind == "other" and "weight" in own and len(shape) == MATRIX:
            kind = "linear"  # a matrix under the field's usual name, as routers keep it
        elif kind == "other":
            extra = {"parameters": {key: list(_size(p)) for key, p in own.items()}}
        if id(own.get("in_proj_weight", weight)) in self.unread:  # it runs, and the loss does not read what it gives
            trainable, common = False, {**common, "input_grad": False, "output_grad": False}
        if self.look is not None and kind in POSITIONED:
            extra = {**extra, **self.look.per_sample(module)}
        biased = {"bias": any("bias" in key for key in own), "trainable": trainable}
        self._enter(module, kind, pattern, shape, {**biased, **common, **extra})

    def _look_ahead(self, name: str, module: Any) -> None:
        """Note a block whose front norm trains: then everything in the block has an input with a gradient."""
        children = module._modules  # noqa: SLF001 - children() has no names
        if self.encoder_trains is None and name.rpartition(".")[2] == "decoder":
            self.encoder_trains = self.trainable > 0
        if not children or self.trainable:
            return
        fronts = (*FRONT_NORMS, "layer_norm") if any(sub in children for sub in T5_SUBLAYERS) else FRONT_NORMS
        for front in fronts:
            norm = children.get(front)
            if norm is not None and any(p.requires_grad for p in norm.parameters()):
                self.fronts.add(name)

    def _input_grad(self, name: str) -> bool:
        """Whether autograd needs the gradient of this module's input: something trainable comes before it."""
        path = name.partition(".base_layer")[0].partition(".lora_A")[0]
        parent, _, last = path.rpartition(".")
        grad = self.grad_from_start or self.trainable > 0
        grad = grad or any(path.startswith(front + ".") and last not in FRONT_NORMS for front in self.fronts)
        is_key_or_value = SIBLINGS.get(last) == "qkv" and not last.startswith(("q", "wq", "c_q"))
        if is_key_or_value and any(part in CROSS_ATTENTION for part in parent.split(".")):
            return self.grad_from_start or bool(self.encoder_trains) or ".lora_B" in name
        if last in SIBLINGS and ".lora_B" not in name:
            return self.siblings.setdefault((parent, SIBLINGS[last]), grad)
        return grad

    def _enter(self, module: Any, kind: str, names: str, shape: list[int], rest: dict[str, Any]) -> None:
        key = (names, type(module), str(shape), str(rest))
        entry = self.entries.get(key)
        if entry is not None:
            entry["count"] += 1
            return
        cls = f"{type(module).__module__}.{type(module).__qualname__}"
        self.entries[key] = {"kind": kind, "class": cls, "names": names, "shape": shape, "count": 1, **rest}

    def _kind(self, cls: type) -> str:
        known = self._kinds.get(cls)
        if known is None:
            known = self._kinds[cls] = kind_of(cls)
        return known

    def _count(self, p: Any, kind: str, name: str, shape: tuple[int, ...], *, is_bias: bool) -> None:
        if id(p) in self.seen:
            return
        self.seen[id(p)] = kind
        size = prod(shape)
        self.total += size
        if p.requires_grad:
            self.trainable += size
        if kind == "embedding":
            self.lookup += size
            if name.rpartition(".")[2] in self.position_tables:
                self.position += size
        elif kind == "norm" or is_bias or len(shape) == 1:
            self.norm_bias += size
        dtype = str(p.dtype).rpartition(".")[2]
        self.dtypes[dtype] = self.dtypes.get(dtype, 0) + size


def kind_of(cls: type) -> str:
    """What a module of this class is for the description."""
    for base in cls.__mro__:
        if base.__module__.startswith("torch.nn."):
            for name, kind in KINDS:
                if base.__name__ == name:
                    return kind
    if cls.__name__ == "Conv1D":
        return "conv1d_hf"
    if "Norm" in cls.__name__:
        return "norm"
    return "embedding" if cls.__name__.endswith("ParallelEmbedding") else "other"


def _whole_of(module: Any) -> Iterator[Any]:
    """Its own parameters, and those that a parametrization (weight norm) makes its weight from."""
    yield from (p for p in module._parameters.values() if p is not None)  # noqa: SLF001 - not the children's
    made_from = module._modules.get("parametrizations")  # noqa: SLF001 - named so by torch
    if made_from is not None:
        yield from made_from.parameters()


def _has_triangle(module: Any) -> bool:
    """Whether a buffer holds a causal mask; by its name alone where reading it would wait for a device."""
    from .autograd_graph import is_triangle

    buffers = getattr(module, "_buffers", None) or {}
    return any(is_triangle(name, buffer) for name, buffer in buffers.items() if buffer is not None)


def _whole(kind: str, module: Any, key: str) -> tuple[int, ...] | None:
    """What the module says of a parameter's shape: FSDP1 leaves a flat shard of it, 4-bit weights a packed one."""
    if kind == "linear":
        outputs, inputs = getattr(module, "out_features", None), getattr(module, "in_features", None)
        if isinstance(outputs, int) and isinstance(inputs, int) and outputs and inputs:  # a lazy layer's are 0
            return {"weight": (outputs, inputs), "bias": (outputs,)}.get(key)
    if kind == "embedding" and key == "weight":
        rows, width = getattr(module, "num_embeddings", None), getattr(module, "embedding_dim", None)
        if isinstance(rows, int) and isinstance(width, int):
            return (rows, width)
    if kind == "norm":
        features = getattr(module, "normalized_shape", None)
        return tuple(features) if isinstance(features, tuple) and features else None
    return None


def _text(holder: Any, name: str) -> str | None:
    """A text attribute, or None where there is none or it is something else."""
    value = attribute(holder, name)
    return value if isinstance(value, str) else None


def _is_stack(size: tuple[int, ...]) -> bool:
    return len(size) == STACKED and min(size) > 1


def _size(p: Any) -> tuple[int, ...]:
    """The whole parameter's shape, also when DeepSpeed ZeRO-3 or DTensor keeps only a part of it here."""
    whole = getattr(p, "ds_shape", None)
    return tuple(int(n) for n in (whole if whole is not None else p.shape))


def _shape(kind: str, module: Any, own: Mapping[str, Any]) -> tuple[list[int], dict[str, Any]]:
    """The shape as the schema has it, and what else a kind needs."""
    whole = _whole(kind, module, "weight")
    if whole is not None:
        return list(whole), {}
    if kind == "conv1d_hf":
        inputs, outputs = _size(own["weight"])
        return [outputs, inputs], {}
    if kind == "mha":
        width = int(module.embed_dim)
        rows = 3 * width if module.in_proj_weight is not None else width + module.kdim + module.vdim
        return [rows, width], {"heads": int(module.num_heads)}
    if kind == "conv":
        extra = {
            "kernel": [int(n) for n in module.kernel_size],
            "stride": [int(n) for n in module.stride],
            "groups": int(module.groups),
            "transposed": bool(module.transposed),
        }
        return [int(module.out_channels), int(module.in_channels)], extra
    if kind == "rnn":
        return [int(module.hidden_size), int(module.input_size)], {
            "mode": str(getattr(module, "mode", type(module).__name__)),
            "num_layers": int(getattr(module, "num_layers", 1)),
            "bidirectional": bool(getattr(module, "bidirectional", False)),
            "proj_size": int(getattr(module, "proj_size", 0)),
        }
    first = own.get("weight", next(iter(own.values()), None))
    return ([] if first is None else list(_size(first))), {}


def _pattern(name: str) -> str:
    return ".".join("*" if part.isdigit() else part for part in name.split("."))
