"""From a description of a model, as plain data, to its ModelShape.

A description is a JSON-able dict, made by `inside.describe.describe` from live modules or written from a config file:

- `class`, `module`: name and defining module of the root's class
- `config`: the config's attributes that are numbers, strings, booleans, None or lists of them, and nested configs
  (`text_config`, `vision_config`, ...) as dicts of the same; None without a config.  `config_class`: its class or None
- `params`: `total`, `trainable` (elements of all parameters and of those with a gradient, shared ones once), `lookup`
  (of the weights of every distinct nn.Embedding), `position_lookup` (of those that are position tables), `norm_bias`
  (of norms and of one-dimensional parameters); None when there are no modules
- `modules`: entries with `kind` (linear, conv1d_hf, embedding, mha, conv, rnn, norm, experts, other), `class`, `names`
  (numbers as `*`), `shape` ([outputs, inputs] for a linear, [rows, width] for a table, [experts, ...] for a stack of
  experts), `bias`, `count` (of modules alike), `trainable`, `tied` (the weight is an earlier module's), `input_grad`
  (something trainable comes before it); beside these `heads` for mha, `kernel`, `stride`, `groups`, `transposed` for
  conv, `mode`, `num_layers`, `bidirectional`, `proj_size` for rnn
- `dtype`: of most parameters.  `skipped`: modules that did not answer
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Mapping, Tuple

from trainmeter_core.model_shape import AttentionCore, Component, ModelShape
from trainmeter_core.readings import Absent

from .blocks import dense_decoder, merged
from .config_facts import Facts, facts, first, source_of
from .families import FAMILIES, shape_of_family
from .modules import Seen, seen_in

__all__ = ["dense_decoder", "shape_of"]

Shaped = Tuple[ModelShape, str]


def shape_of(description: Mapping[str, Any]) -> Shaped | Absent:
    """The shape, and what told it: hf_config, gpt_config, llama_config or modules.

    Modules are the truth for weights, tables, norms and a tied head; the config for heads and windows. Without
    modules the config tells all, for the families it can; without a config, heads are not visible.
    """
    config = description.get("config") or {}
    source = source_of(config)
    if not description.get("modules"):
        if not source:
            return Absent("neither modules nor a config of a known kind")
        shape = shape_of_family(config, source)
        return shape if isinstance(shape, Absent) else (shape, source)
    seen = seen_in(description["modules"], first(config, "experts"), first(config, "active"))
    known = facts(config) if source and not _is_several_streams(config) else Absent("no config of a known kind")
    if isinstance(known, Facts) and _agree(known, seen):
        return _shape(description, seen, _config_cores(known, _is_causal(description, source)), known), source
    return _shape(description, seen, _module_cores(seen), None), "modules"


def _is_several_streams(config: Mapping[str, Any]) -> bool:
    """An encoder-decoder, or pictures or sound beside the text."""
    return bool(config.get("is_encoder_decoder")) or any(
        name in config for name in ("patch_size", "vision_config", "audio_config", "encoder", "decoder")
    )


def _agree(known: Facts, seen: Seen) -> bool:
    """Whether the attention layers that the config tells are the ones that the modules show, as far as they do."""
    if not seen.cores:
        return True
    layers = sum(count for count, _q, _v, _heads in seen.cores)
    width = known.heads * known.qk_head_dim
    return layers == sum(known.attends) and all(q == width for _count, q, _v, _heads in seen.cores)


def _is_causal(description: Mapping[str, Any], source: str) -> bool | None:
    config, name = description["config"], str(description.get("class"))
    if source != "hf_config":
        return True
    if config.get("model_type") in FAMILIES or name.endswith(("ForCausalLM", "LMHeadModel")):
        return True
    return False if name.endswith("ForMaskedLM") else None


def _config_cores(known: Facts, causal: bool | None) -> list[Component]:
    return [
        AttentionCore(
            known.heads * known.qk_head_dim,
            known.heads * known.v_head_dim,
            known.heads,
            known.kv_heads,
            window=window,
            chunked=known.chunked and window is not None,
            causal=causal,
        )
        for window, attends in zip(known.windows, known.attends)
        if attends
    ]


def _module_cores(seen: Seen) -> list[Component]:
    return [AttentionCore(q, v, heads, count=count, causal=None) for count, q, v, heads in seen.cores]


def _shape(description: Mapping[str, Any], seen: Seen, cores: list[Component], known: Facts | None) -> ModelShape:
    params = description["params"]
    projections = [c for c in seen.components if getattr(c, "role", "").startswith("attention.")]
    gap = seen.gap
    if not gap and projections and not cores:
        gap = "attention is there, but its width is not visible without a config"
    if not gap and _is_several_streams(description.get("config") or {}):
        gap = "this model works on several streams of positions, which are not told apart"
    name = known.family if known is not None and known.family else str(description.get("class") or "")
    unknown = Absent("not visible without a config")
    return ModelShape(
        merged([*seen.components, *cores]),
        params["total"],
        params["trainable"],
        params["norm_bias"],
        known.width if known is not None else unknown,
        known.layers if known is not None else unknown,
        family=name,
        gap=gap,
    )


def with_padded_vocabulary(shape: ModelShape, rows: int) -> ModelShape:
    """The shape with the head padded to `rows`, as Megatron-LM does for tensor parallelism."""
    return replace(shape, padded_vocabulary=rows)
