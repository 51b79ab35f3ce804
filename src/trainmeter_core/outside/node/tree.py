"""Small files below a root folder, and what they hold; every path that the node's sampler reads goes through here."""

from __future__ import annotations

import os

# More than 64 bits have, and than any kernel counts.
_MOST_DIGITS = 20
_MOST_CPUS = 1 << 16


class Tree:
    """The files under `root`, which is / on a live machine and a fixture in a test."""

    def __init__(self, root: str = "/") -> None:
        self.root = root

    def path(self, *parts: str) -> str:
        """The real path of an absolute one."""
        return os.path.join(self.root, *(part.lstrip("/") for part in parts))

    def text(self, *parts: str) -> str:
        """The file's text; OSError when it cannot be read."""
        # One read of a raw file: half the cost of a text stream, and /proc gives one consistent moment.
        with open(self.path(*parts), "rb", buffering=0) as file:
            return file.readall().decode("utf-8", "replace")

    def maybe(self, *parts: str) -> str | None:
        """The file's text without the outer blanks, or None when there is none to be had."""
        try:
            return self.text(*parts).strip()
        except OSError:
            return None

    def number(self, *parts: str) -> int | None:
        """The whole number in the file, or None."""
        text = self.maybe(*parts)
        try:
            return None if text is None else int(text)
        except ValueError:  # "max", or empty
            return None

    def names(self, *parts: str) -> list[str]:
        """What the folder holds, sorted; empty when there is no such folder."""
        try:
            return sorted(os.listdir(self.path(*parts)))
        except OSError:
            return []

    def exists(self, *parts: str) -> bool:
        return os.path.exists(self.path(*parts))


def table(text: str, separator: str | None = None) -> dict[str, int]:
    """Lines of `name number …` as a dictionary; lines of any other form are left out.

    >>> table("MemTotal:  16 kB", ":")
    {'MemTotal': 16}
    """
    rows = {}
    for line in text.splitlines():
        name, *rest = line.split(separator, 1)
        words = rest[0].split() if rest else []
        if words and words[0].isdecimal() and len(words[0]) <= _MOST_DIGITS:
            rows[name.strip()] = int(words[0])
    return rows


def cpu_list(text: str) -> set[int]:
    """The processors of a list like 0-3,8.

    >>> sorted(cpu_list("0-2,5"))
    [0, 1, 2, 5]
    """
    cpus: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal() and max(len(first), len(last)) <= _MOST_DIGITS:
            cpus.update(range(int(first), min(int(last or first), int(first) + _MOST_CPUS) + 1))
    return cpus


def key_of(text: str) -> str:
    """`text` as the last part of a series name: no slash and no blank in it."""
    return "_".join(text.replace("/", " ").split())
