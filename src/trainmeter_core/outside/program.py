"""Which program of the user's a command line runs, behind interpreters and launchers: its name and where it lies."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_TAKES_MODULE = re.compile(r"(?:python|pypy)[\d.]*w?|torchrun|accelerate|deepspeed|horovodrun")
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")
# Modules that only start another program, which is named behind them.
_LAUNCHERS = frozenset({
    "torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch", "accelerate",
    "deepspeed.launcher.runner", "coverage", "cProfile", "pdb", "debugpy",
})  # fmt: skip

# Of the interpreter's own options, those whose value is a word of its own.
_WITH_VALUE = frozenset({"-W", "-X", "--check-hash-based-pycs"})


class Program(NamedTuple):
    """What the user would call the program, and the directory whose repository it belongs to."""

    name: str
    directory: str


def program_of(kind: Literal["script", "module", "command"], target: str, argv: Sequence[str]) -> Program:
    """The script or module that `argv` runs in the end; the command itself where there is none.

    In a command it is the first existing .py file, or the module behind the -m of a Python or a launcher.
    """
    if kind == "script":
        return Program(target, os.path.dirname(target) or ".")
    if kind == "module":
        return Program(target, ".")
    takes_module = False
    for at, word in enumerate(argv):
        if word.endswith(".py") and os.path.isfile(word):
            return Program(word, os.path.dirname(word) or ".")
        if takes_module and word in ("-m", "--module", "--python-module") and at + 1 < len(argv):
            name = argv[at + 1]
            if _MODULE.fullmatch(name) and name not in _LAUNCHERS:
                return Program(name, ".")
        takes_module = takes_module or bool(_TAKES_MODULE.fullmatch(os.path.basename(word)))
    return Program(target, ".")


def script_of(command: Sequence[str]) -> str:
    """The script of a running Python's command line, or the module behind its -m; else the command itself.

    It is the command itself also for a text behind -c, which is no name.
    """
    words = iter(command[1:])
    for word in words:
        if word == "-c":
            break
        if word == "-m":
            return next(words, word)
        if word in _WITH_VALUE:
            next(words, "")
        elif not word.startswith("-"):
            return word
    return command[0] if command else ""
