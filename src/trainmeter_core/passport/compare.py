"""Several passports side by side, as one Markdown table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable

from .markdown import cell, escape

if TYPE_CHECKING:
    from .sheet import Json

_TEXTS: dict[str, Callable[[Any], Any]] = {
    "script": lambda passport: passport["identity"]["script"],
    "started (UTC)": lambda passport: passport["identity"]["started"],
    "commit": lambda passport: passport["identity"]["git_commit"],
    "GPUs": lambda passport: ", ".join(
        f"{gpu['count']['value']} {gpu['name']}" for gpu in passport["hardware"]["gpus"] or []
    ),
    "torch": lambda passport: passport["software"]["torch"],
    "convention": lambda passport: passport["options"]["convention"],
    "end": lambda passport: passport["ends"]["how"],
}
_NUMBERS = {
    "parameters": "model.parameters_total",
    "devices": "hardware.devices",
    "steps": "data.steps",
    "tokens": "data.tokens",
    "peak": "options.peak_tflops",
    "MFU": "efficiency.mfu_pct",
    "speed": "efficiency.tokens_per_s",
    "speed per device": "efficiency.tokens_per_s_per_device",
    "model FLOP rate": "efficiency.tflops",
    "mean step": "efficiency.step_time_s",
    "wall time": "time.wall_s",
    "GPU energy": "energy.gpu_kwh",
    **{
        "time: " + kind.replace("_", " "): "time.shares." + kind
        for kind in ("step", "data_wait", "checkpoint", "eval", "logging", "startup", "other")
    },
}


def table(passports: list[Json]) -> str:
    """One column per run; values that are not known are n/a. MFUs of different conventions stand as they are."""
    names = [escape(passport["identity"]["run_id"] or "unknown run") for passport in passports]
    lines = ["| run | " + " | ".join(names) + " |", "|" + " --- |" * (len(names) + 1)]
    for label, text in _TEXTS.items():
        lines.append(_row(label, [escape(text(passport) or "n/a") for passport in passports]))
    for label, field in _NUMBERS.items():
        lines.append(_row(label, [cell(_at(passport, field)) for passport in passports]))
    return "\n".join(lines) + "\n"


def _row(label: str, cells: list[str]) -> str:
    return f"| {label} | " + " | ".join(cells) + " |"


def _at(passport: Json, field: str) -> Any:
    found: Any = passport
    for name in field.split("."):
        found = found[name]
    return found
