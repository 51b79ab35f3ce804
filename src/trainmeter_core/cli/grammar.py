"""Where tm's own options end and the user's command begins; pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


@dataclass(frozen=True)
class CommandLine:
    """`tm` OPTIONS, then a target and its arguments, which belong to the user and pass through untouched."""

    options: list[str]
    kind: Literal["target", "module", "command", "nothing"]
    """target: the first free word; module: after -m; command: after --; nothing: no word is left."""
    rest: list[str]
    """The target, module or program and its arguments."""


def split(words: Sequence[str], with_value: Collection[str]) -> CommandLine:
    """Split the words after `tm`; `with_value` holds the options that take the next word as their value."""
    at = 0
    while at < len(words):
        word = words[at]
        options, after = list(words[:at]), list(words[at + 1 :])
        if word == "--":
            return CommandLine(options, "command" if after else "nothing", after)
        if word == "-m":
            return CommandLine(options, "module", after)
        if word.startswith("-m") and not word.startswith("--"):  # -mMODULE, as Python takes it
            return CommandLine(options, "module", [word[2:], *after])
        if not word.startswith("-") or word == "-":
            return CommandLine(options, "target", [word, *after])
        at += 2 if word in with_value else 1
    return CommandLine(list(words), "nothing", [])
