"""Options of `tm` that adapters add to a run; the adapters are asked only where a line needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .run import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trainmeter_core.hookspecs import Option

_OWN = frozenset(name for option in OPTIONS for name in (*option.opts, *option.secondary_opts))


def has_foreign(words: Iterable[str]) -> bool:
    """Whether a word may be an option that is not tm's own."""
    return any(word.startswith("--") and word.partition("=")[0] not in _OWN for word in words)


def adapter_options() -> list[Option]:
    """The options of all adapters that can be used; one that has the name of another's, or of tm's own, is left out."""
    from trainmeter_core.plugins import find_plugins, managers

    found: dict[str, Option] = {}
    for _, manager in managers(find_plugins()[0]):
        try:
            told = [option for options in manager.hook.options() for option in options]
        except Exception:  # noqa: BLE001 - a third party's adapter: its options are unknown, all else goes on
            told = []
        for option in told:
            if option.name not in _OWN:
                found.setdefault(option.name, option)
    return list(found.values())


def as_click(options: Iterable[Option]) -> list[click.Parameter]:
    """The same for click, each under its variable's name."""
    return [
        click.Option(
            [option.name, option.variable], is_flag=not option.metavar, metavar=option.metavar or None, help=option.help
        )
        for option in options
    ]


def taken_from(given: dict[str, Any], options: Iterable[Option]) -> tuple[tuple[str, str], ...]:
    """Take the adapters' options out of what was parsed, as environment variables; a flag that was given is 1."""
    taken: list[tuple[str, str]] = []
    for option in options:
        value = given.pop(option.variable)
        if value:
            taken.append((option.variable, value if isinstance(value, str) else "1"))
    return tuple(taken)
