"""From a description of a model, as plain data, to its ModelShape.

A description is a JSON-able dict, made by `inside.describe.describe` from live modules or written from a config file:

- `class`, `module`: name and defining module of the root's class
- `config`: the config's attributes that are numbers, strings, booleans, None or lists of them, and nested configs
  (`text_config`, `vision_config`, ...) as dicts of the same; None without a config.  `config_class`: its class or None
- `main_input`: the name of the input that Hugging Face counts, or None
- `params`: `total`, `trainable` (elements of all parameters and of those with a gradient, shared ones once), `lookup`
  (of the weights of every distinct nn.Embedding), `position_lookup` (of those that are position tables), `norm_bias`
  (of norms and of one-dimensional parameters); None when there are no modules
- `modules`: entries with `kind` (linear, conv1d_hf, embedding, mha, conv, rnn, norm, experts, other), `class`, `names`
  (numbers as `*`), `shape` ([outputs, inputs] for a linear, [rows, width] for a table, [experts, ...] for a stack of
  experts), `bias`, `count` (of modules alike), `trainable`, `tied` (the weight is an earlier module's), `input_grad`
  (something trainable comes before it), `output_grad` (or in it); beside these `heads` for mha, `parameters` (name to
  shape) for other, `kernel`, `stride`, `groups`, `transposed` for conv, `mode`, `num_layers`, `bidirectional`,
  `proj_size` for rnn
- `positions` of a module: rows per sample that its weight was multiplied with in the call that was seen (a transposed
  convolution's input), None where not the same for all; `key_positions`, `causal` of an mha.  `look`: see `looked.Look`
- `recompute`: `layers` where the layers' forward pass is repeated in the backward one, as far as that is visible
- `stages`: of a pipeline of so many ranks this is what one of them holds: the modules are a part, the config is whole
- `bytes`: of weights: `forward`, `backward` (read by these passes, by dtype, inactive experts included), `gradients`,
  `trained` (the part of the trained ones that this rank's optimizer moves); None where they are in an unknown format
- `dtype`: of most parameters.  `skipped`: how many modules did not answer
"""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence, Tuple

from trainmeter_core.model_shape import TOKENS, AttentionCore, Matmul, ModelShape, Scan, Stream
from trainmeter_core.readings import Absent

from .blocks import dense_decoder, merged
from .config_facts import Facts, facts, layer_kinds, source_of, text_config
from .entries import Entry, parameters
from .families import FAMILIES, entries_of
from .looked import Look, cores_seen, look_of, stream_of_entry, unknown_products
from .modules import Seen, is_beside, seen_in
from .roles import POSITION_TABLES
from .streams import Layout, layout_of
from .templates import TEMPLATES

__all__ = ["dense_decoder", "shape_of", "shape_read"]

Shaped = Tuple[ModelShape, str]


def shape_of(description: Mapping[str, Any]) -> Shaped | Absent:
    """The shape, and what told it: hf_config, gpt_config, llama_config, megatron_config or modules.

    Modules are the truth for weights, tables, norms and a tied head; the config for heads and windows. Without
    modules the config tells all, for the families it can; without a config, heads are not visible.
    """
    config = description.get("config") or {}
    source = source_of(config)
    entries, params = description.get("modules"), description.get("params") or {}
    if description.get("stages"):
        if not source:
            return Absent(f"one of {description['stages']} pipeline stages was seen, which is not the whole model")
        entries = None
    if not entries:
        if not source:
            return Absent("neither modules nor a config of a known kind")
        written = _written(config, source, str(description.get("class") or (config.get("architectures") or ("",))[0]))
        if isinstance(written, Absent):
            return written
        entries, params = written, parameters(written, POSITION_TABLES)
    kind, class_name = str(config.get("model_type") or ""), str(description.get("class") or "")
    known_decoder = (
        source in ("gpt_config", "llama_config", "megatron_config") or kind in FAMILIES or kind in ("mamba", "mamba2")
    )
    layout = layout_of(config, class_name, known_decoder=known_decoder, entries=entries)
    look = look_of(description)
    if look is not None and _is_seen_only(look, layout, source):
        layout = Layout(main=TOKENS if look.length else Stream("the model's input"), look=look)
    text = text_config(config) if layout.beside else config
    known = facts(text) if source and text else Absent("the model has no config of a known kind")
    seen = seen_in(entries, text or config, layout)
    found = (
        _attention_seen(look, seen, layout, entries)
        if look is not None and layout.look
        else _attention(known, seen, layout, source)
    )
    if not found.gap and not found.scans and any("linear" in layer for layer in layer_kinds(config, _layers(known))):
        found = found._replace(gap="the recurrence of this model's linear attention is not known")
    unknown = Absent("not visible without a config")
    beside = parameters([entry for entry in entries if is_beside(entry, layout)], POSITION_TABLES)
    shape = ModelShape(
        merged([*seen.components, *found.cores]),
        params["total"],
        params["trainable"],
        params["norm_bias"],
        known.width if isinstance(known, Facts) else unknown,
        known.layers if isinstance(known, Facts) else unknown,
        family=kind or class_name,
        main_input=_main_input(description, layout),
        beside_parameters=beside["total"],
        gap=layout.gap or seen.gap or found.gap,
    )
    return shape, found.told


def shape_read(description: Mapping[str, Any]) -> Shaped | Absent:
    """`shape_of` for a description that lay in a file: one that was damaged, or of another version, is Absent."""
    unreadable = Absent("the model's description is not one that this version can read")
    try:
        found = shape_of(description)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        return unreadable
    if isinstance(found, Absent):
        return found
    sizes = (getattr(found[0], name) for name in _SIZES)
    return found if all(isinstance(size, (int, Absent)) for size in sizes) else unreadable


_SIZES = ("parameters", "trainable_parameters", "inactive_parameters", "width", "layers")


def _is_seen_only(look: Look, layout: Layout, source: str) -> bool:
    """Whether the positions of a call tell the streams: without a config, or with one that does not tell them."""
    return not source or bool(layout.gap) or (not look.length and layout.main == TOKENS and layout.encoder is None)


class _Attention(NamedTuple):
    """The attention cores, what told them, whether there are scans instead or beside, and why they are not known."""

    cores: list[AttentionCore]
    told: str
    scans: bool
    gap: str = ""


def _attention(known: Facts | Absent, seen: Seen, layout: Layout, source: str) -> _Attention:
    """By the config where it agrees with the modules, else by the modules alone."""
    scans = any(isinstance(component, Scan) for component in seen.components)
    projects = any(m.role in PROJECTIONS for m in seen.components if isinstance(m, Matmul))
    by_modules = _module_cores(seen, layout)
    if layout.encoder is not None or layout.gap:
        return _Attention(by_modules, source or "modules", scans)
    if not by_modules and not projects:
        heads = isinstance(known, Facts) and not scans
        gap = "its config has heads, and no attention is visible by the names of its modules" if heads else ""
        return _Attention([], source or "modules", scans, gap)
    if isinstance(known, Facts) and _agree(known, seen):
        return _Attention(_config_cores(known, seen, layout), source, scans)
    gap = "" if by_modules else "attention is there, but its width is not visible without a config"
    return _Attention(by_modules, "modules", scans, gap)


def _attention_seen(look: Look, seen: Seen, layout: Layout, entries: Sequence[Entry]) -> _Attention:
    """By what autograd recorded, else by the modules at the positions where they were called."""
    scans = any(isinstance(component, Scan) for component in seen.components)
    named = _module_cores(seen, layout)
    cores, why = cores_seen(look, named)
    projects = any(m.role in PROJECTIONS for m in seen.components if isinstance(m, Matmul))
    if projects and not cores and not why:
        why = "attention is there, but its width is not visible without a config"
    why = unknown_products(look, entries) or why
    return _Attention(list(cores), "modules", scans, why)


def _layers(known: Facts | Absent) -> int:
    return known.layers if isinstance(known, Facts) else 0


def _main_input(description: Mapping[str, Any], layout: Layout) -> int | Absent:
    name = description.get("main_input")
    if layout.look is not None and not layout.look.length and name is None:
        return Absent("Hugging Face's Trainer counts nothing for a model that names no main input")
    if layout.main_input or name in (None, "input_ids"):
        return layout.main_input
    return Absent(f"how many elements {name} has in a batch is not known")


def _written(config: Mapping[str, Any], source: str, class_name: str) -> list[Entry] | Absent:
    is_known = str(config.get("model_type")) in {*TEMPLATES, *FAMILIES}
    if source == "hf_config" and is_known and class_name and not class_name.endswith(WRITTEN_HEADS):
        return Absent(f"the head of {class_name} is not known from its config alone")
    template = TEMPLATES.get(str(config.get("model_type"))) if source == "hf_config" else None
    if template is None:
        return entries_of(config, source)
    try:
        return template(config)
    except KeyError as missing:
        return Absent(f"the config names no {missing.args[0]}")


def _agree(known: Facts, seen: Seen) -> bool:
    """Whether the attention layers that the config tells are the ones that the modules show, as far as they do."""
    if not seen.cores:
        return True  # a projection is there whose width has no part of its own, as a fused one with grouped heads
    width = known.heads * known.qk_head_dim
    layers = sum(core.layers for core in seen.cores)
    return layers == sum(known.attends) and all(core.qk_width in (width, 2 * width) for core in seen.cores)


def _config_cores(known: Facts, seen: Seen, layout: Layout) -> list[AttentionCore]:
    windows = [window for window, attends in zip(known.windows, known.attends) if attends]
    return [
        AttentionCore(
            known.heads * known.qk_head_dim,
            known.heads * known.v_head_dim,
            known.heads,
            known.kv_heads,
            window=window,
            chunked=known.chunked and window is not None,
            causal=layout.causal,
            queries=layout.main,
            keys=layout.main,
            **_grads(layer, seen.frozen),
        )
        for layer, window in enumerate(windows)
    ]


def _module_cores(seen: Seen, layout: Layout) -> list[AttentionCore]:
    encoder = layout.encoder if layout.encoder is not None else layout.main
    cores = []
    for core in seen.cores:
        queries = encoder if core.in_encoder else layout.main
        keys = encoder if core.in_encoder or core.cross else layout.main
        causal = False if core.cross or (core.in_encoder and layout.encoder is not None) else layout.causal
        if layout.look is not None:
            of_queries, of_keys = core.inputs
            queries = stream_of_entry(of_queries, layout.look, queries)
            keys = stream_of_entry(
                of_keys, layout.look, keys, "key_positions" if of_keys["kind"] == "mha" else "positions"
            )
            causal = of_queries.get("causal", None if core.cross else layout.look.causal)
        cores += [
            AttentionCore(
                core.qk_width,
                core.v_width,
                core.heads,
                causal=causal,
                queries=queries,
                keys=keys,
                **_grads(layer, core.frozen),
            )
            for layer in range(core.layers)
        ]
    return cores


def _grads(layer: int, frozen: Mapping[str, int]) -> dict[str, bool]:
    """Whether q, k and v of a layer have a gradient, where so many of the first layers' have none."""
    return {f"{letter}_grad": layer >= frozen[letter] for letter in "qkv"}


WRITTEN_HEADS = ("ForCausalLM", "LMHeadModel", "ForMaskedLM", "ForConditionalGeneration", "ForImageClassification")
PROJECTIONS = ("attention.qkv", "attention.q", "attention.q_up")
