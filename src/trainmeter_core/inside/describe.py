"""A live model as plain data: its modules by kind, shape and name pattern, its config, its parameter counts.

Duck-typed, so that no torch import is needed; shapes only, never data, so that no device is waited for.
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping

PRIMITIVES = (bool, int, float, str, type(None))
NESTED = ("text_config", "vision_config", "audio_config", "encoder", "decoder", "llm_config", "thinker_config")
LONGEST_LIST = 4096
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


def describe(root: Any) -> dict[str, Any]:
    """The description that `shape_from` documents; never raises for an odd module, whose entry is then left out."""
    model = unwrapped(root)
    config, config_class = _config(model)
    walk = _Walk()
    for name, module in _named_modules(model):
        walk.add(name, module)
    return {
        "class": type(model).__name__,
        "module": type(model).__module__,
        "config": config,
        "config_class": config_class,
        "params": walk.params(),
        "modules": list(walk.entries.values()),
        "dtype": max(walk.dtypes, key=walk.dtypes.__getitem__) if walk.dtypes else None,
        "skipped": walk.skipped,
    }


def unwrapped(model: Any) -> Any:
    """The user's own model under DistributedDataParallel, torch.compile and PEFT."""
    for _ in range(8):  # wrappers nest two or three deep; a bound keeps a cycle from holding us
        inner = None
        name = type(model).__name__
        if name == "OptimizedModule":
            inner = getattr(model, "_orig_mod", None)
        elif name in ("DistributedDataParallel", "DataParallel", "FullyShardedDataParallel", "DeepSpeedEngine"):
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


class _Walk:
    """The sums over one walk: entries by their key, parameters by identity."""

    def __init__(self) -> None:
        self.entries: dict[tuple[Any, ...], dict[str, Any]] = {}
        self.dtypes: dict[str, int] = {}
        self.seen: dict[int, str] = {}
        self.total = self.trainable = self.lookup = self.position = self.norm_bias = self.skipped = 0
        self._kinds: dict[type, str] = {}
        from trainmeter_core.shape_from.modules import POSITION_TABLES  # not at start: it imports dataclasses

        self.position_tables = POSITION_TABLES

    def params(self) -> dict[str, int]:
        return {
            "total": self.total,
            "trainable": self.trainable,
            "lookup": self.lookup,
            "position_lookup": self.position,
            "norm_bias": self.norm_bias,
        }

    def add(self, name: str, module: Any) -> None:
        """One module with its own parameters, without its children's; skipped when it does not answer."""
        try:
            self._add(name, module)
        except Exception:  # noqa: BLE001 - lazy, quantized or foreign modules answer with any error when asked a shape
            self.skipped += 1

    def _add(self, name: str, module: Any) -> None:
        kind = self._kind(type(module))
        own = {key: p for key, p in module._parameters.items() if p is not None}  # noqa: SLF001 - not the children's
        if not own and kind in ("other", "norm"):
            return
        input_grad = self.trainable > 0
        weight = own.get("weight")
        common = {"tied": weight is not None and id(weight) in self.seen, "input_grad": input_grad}
        trainable = any(p.requires_grad for p in own.values())
        for p in own.values():
            self._count(p, kind, name)
        pattern = _pattern(name)
        stacks = {key: p for key, p in own.items() if len(_size(p)) == STACKED} if kind == "other" else {}
        for key, p in stacks.items():  # the experts of a mixture, one parameter for all of them
            biased = {"bias": key + "_bias" in own, "trainable": bool(p.requires_grad)}
            self._enter(module, "experts", f"{pattern}.{key}", list(_size(p)), {**biased, **common})
        if stacks:
            return
        shape, extra = _shape(kind, module, own)
        if kind == "other" and "weight" in own and len(shape) == MATRIX:
            kind = "linear"  # a matrix under the field's usual name, as routers keep it
        biased = {"bias": any("bias" in key for key in own), "trainable": trainable}
        self._enter(module, kind, pattern, shape, {**biased, **common, **extra})

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
            known = self._kinds[cls] = _kind_of(cls)
        return known

    def _count(self, p: Any, kind: str, name: str) -> None:
        if id(p) in self.seen:
            return
        self.seen[id(p)] = kind
        size = 1
        for n in _size(p):
            size *= n
        self.total += size
        if p.requires_grad:
            self.trainable += size
        if kind == "embedding":
            self.lookup += size
            if name.rpartition(".")[2] in self.position_tables:
                self.position += size
        elif kind == "norm" or len(_size(p)) == 1:
            self.norm_bias += size
        dtype = str(p.dtype).rpartition(".")[2]
        self.dtypes[dtype] = self.dtypes.get(dtype, 0) + size


def _kind_of(cls: type) -> str:
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


def _size(p: Any) -> tuple[int, ...]:
    """The whole parameter's shape, also when DeepSpeed ZeRO-3 or DTensor keeps only a part of it here."""
    whole = getattr(p, "ds_shape", None)
    return tuple(int(n) for n in (whole if whole is not None else p.shape))


def _shape(kind: str, module: Any, own: Mapping[str, Any]) -> tuple[list[int], dict[str, Any]]:
    """The shape as the schema has it, and what else a kind needs."""
    if kind == "linear":
        outputs, inputs = getattr(module, "out_features", None), getattr(module, "in_features", None)
        if isinstance(outputs, int) and isinstance(inputs, int):
            return [outputs, inputs], {}
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


def _config(model: Any) -> tuple[dict[str, Any] | None, str | None]:
    """The config of the model, or else of the first child that has one; as primitives, with its class's name."""
    for holder in (model, *_children(model)):
        for attribute in ("config", "hparams", "args", "params", "cfg"):
            config = _attribute(holder, attribute)
            plain = _plain(config)
            if plain:
                return plain, type(config).__name__
    return None, None


def _attribute(holder: Any, name: str) -> Any:
    try:
        return getattr(holder, name, None)
    except Exception:  # noqa: BLE001 - a user's property may do anything when asked
        return None


def _children(model: Any) -> tuple[Any, ...]:
    children = getattr(model, "children", None)
    return () if children is None else tuple(children())


def _plain(config: Any, depth: int = 0) -> dict[str, Any]:
    """The attributes of a config that are primitives or lists of them, and its nested configs."""
    if isinstance(config, (*PRIMITIVES, type)):
        return {}
    try:
        to_dict = getattr(config, "to_dict", None)
        items = dict(to_dict()) if callable(to_dict) else dict(config) if isinstance(config, Mapping) else vars(config)
    except Exception:  # noqa: BLE001 - a user's config may do anything when asked
        return {}
    plain: dict[str, Any] = {}
    for key, value in items.items():
        if not isinstance(key, str) or key.startswith("_"):
            continue
        if isinstance(value, PRIMITIVES):
            plain[key] = value
        elif isinstance(value, (list, tuple)) and len(value) <= LONGEST_LIST:
            if all(isinstance(v, PRIMITIVES) for v in value):
                plain[key] = list(value)
        elif key in NESTED and depth == 0:
            nested = _plain(value, depth + 1)
            if nested:
                plain[key] = nested
    return plain
