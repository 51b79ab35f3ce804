"""The fenced blocks of the pages, and the lines of those that are shells'."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
SHELLS = ("sh", "console")
_BLOCK = re.compile(r"^```(\S*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    page: str
    language: str
    text: str


def blocks(*languages: str) -> list[Block]:
    """All fenced blocks of these languages."""
    found = [Block(page.name, *match) for page in PAGES for match in _BLOCK.findall(page.read_text(encoding="utf-8"))]
    return [block for block in found if block.language in languages or not languages]


def commands() -> list[str]:
    """Every command that a shell block shows, once; without its comment."""
    lines = [line for block in blocks(*SHELLS) for line in block.text.splitlines()]
    split = [part.strip() for line in lines for part in re.sub(r"(^|\s)#.*", "", line).split("; ")]
    return list(dict.fromkeys(part for part in split if part))
