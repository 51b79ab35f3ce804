"""The losses among what a user logs, read without waiting for a device."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Mapping

from trainmeter_core.series import PREFIX

_DEEPEST = 4


@lru_cache(maxsize=1024)
def is_loss(name: str) -> bool:
    """Say whether a name is that of a loss of the user's."""
    return "loss" in name.lower() and not name.startswith(PREFIX)


def losses(data: Mapping[str, Any]) -> dict[str, float]:
    """Give the losses by name, nested ones joined by a dot, as the client names them.

    A tensor on a device is left out: reading it would wait for the device.
    """
    told: dict[str, float] = {}
    for name, value in data.items():
        kind = type(value)
        if kind is float or kind is int:
            if type(name) is str and is_loss(name):
                told[name] = value
        elif kind is not str and kind is not bool:
            _collect({name: value}, "", told, 0)
    return told


def _collect(data: Mapping[str, Any], prefix: str, told: dict[str, float], depth: int) -> None:
    for name, value in data.items():
        kind = type(value)
        full = prefix + str(name)
        if kind is dict:
            if depth < _DEEPEST:
                _collect(value, full + ".", told, depth + 1)
        elif kind is not str and kind is not bool and is_loss(full):
            number = value if kind is float or kind is int else _number(value)
            if number is not None:
                told[full] = number


def _number(value: Any) -> float | None:
    """Read a zero-dimensional array of the host's memory."""
    if getattr(value, "shape", None) != () or not hasattr(value, "item"):
        return None
    device = getattr(value, "device", None)
    if device is not None and getattr(device, "type", str(device)) != "cpu":
        return None
    number = value.item()
    return float(number) if isinstance(number, (int, float)) else None
