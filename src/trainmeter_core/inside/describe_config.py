"""The config of a live model, as a dict of primitives without secrets."""

from __future__ import annotations

from typing import Any, Mapping

from ..passport.redact import REDACTED, is_secret_name, redact_text

PRIMITIVES = (bool, int, float, str, type(None))
NESTED = ("text_config", "vision_config", "audio_config", "encoder", "decoder", "llm_config", "thinker_config")
LONGEST_LIST = 4096
LONGEST_TEXT = 1024
MOST_ENTRIES = 1000


def config_of(model: Any) -> tuple[dict[str, Any] | None, str | None]:
    """The config of the model, or else of the first child that has one; as primitives, with its class's name."""
    for holder in (model, *_children(model)):
        for name in ("config", "hparams", "args", "params", "cfg"):
            config = attribute(holder, name)
            plain = _plain(config)
            if plain:
                return plain, type(config).__name__
    return None, None


def attribute(holder: Any, name: str) -> Any:
    """An attribute of a user's object, or None."""
    try:
        return getattr(holder, name, None)
    except Exception:  # noqa: BLE001 - a user's property may do anything when asked
        return None


def _children(model: Any) -> tuple[Any, ...]:
    children = getattr(model, "children", None)
    return () if children is None else tuple(children())


def _plain(config: Any, depth: int = 0) -> dict[str, Any]:
    """The attributes of a config that are primitives or lists of them, and its nested configs.

    It goes into the run log, the passport and from there to trackers: what looks like a secret stays here, and so does
    what is too long to be a setting.
    """
    if isinstance(config, (*PRIMITIVES, type)):
        return {}
    try:
        to_dict = getattr(config, "to_dict", None)
        items = dict(to_dict()) if callable(to_dict) else dict(config) if isinstance(config, Mapping) else vars(config)
    except Exception:  # noqa: BLE001 - a user's config may do anything when asked
        return {}
    plain: dict[str, Any] = {}
    for key, value in items.items():
        if not isinstance(key, str) or key.startswith("_") or len(plain) >= MOST_ENTRIES:
            continue
        if isinstance(value, PRIMITIVES):
            plain[key] = _told(key, value)
        elif isinstance(value, (list, tuple)) and len(value) <= LONGEST_LIST:
            if all(isinstance(v, PRIMITIVES) for v in value):
                plain[key] = [_told(key, v) for v in value]
        elif key in NESTED and depth == 0:
            nested = _plain(value, depth + 1)
            if nested:
                plain[key] = nested
    return plain


def _told(key: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if is_secret_name(key) and value:
        return REDACTED
    return redact_text(value) if len(value) <= LONGEST_TEXT else "[" + str(len(value)) + " characters]"
