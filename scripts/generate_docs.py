"""Write the pages of docs/ that are tables of the code itself; `--check` only says which are out of date."""

from __future__ import annotations

import sys
from pathlib import Path

from trainmeter_core.flops import CONVENTIONS
from trainmeter_core.outside.node.series import SERIES as NODE_SERIES
from trainmeter_core.series import PREFIX, SERIES

DOCS = Path(__file__).resolve().parents[1] / "docs"

SPEC_HEAD = """# What is published

<!-- Generated from src/trainmeter_core/series.py by scripts/generate_docs.py; edit there. -->

Every series that trainmeter adds to a tracker. Rules for all of them:

- A value that is not known is absent: never 0, never a guess, never another device's number. Values are finite.
- Shares and utilizations are percent, 0 to 100. One multiply-add is 2 FLOPs. Times are seconds, memory is bytes.
- Rates are over a window of whole optimizer steps on the host's clock; no device is ever synchronized for a number.
- Every MFU carries the name of its convention; the passport holds the peak it was divided by, and its source.
- The parts of `trainmeter/time/` add up to 100.
"""


def spec() -> str:
    """The page of published series."""
    rows = [f"| `{PREFIX}{s.name}` | {s.unit} | {s.meaning} |" for s in SERIES]
    names = [f"| `{c.name}` | {c.meaning} |" for c in CONVENTIONS.values()]
    return "\n".join(
        [
            SPEC_HEAD,
            "| series | unit | meaning |",
            "|---|---|---|",
            *rows,
            "",
            "## Conventions",
            "",
            "`<convention>` is one of these; [flops.md](flops.md) has their formulas.",
            "",
            "| name | what it counts |",
            "|---|---|",
            *names,
            "",
        ]
    )


def node() -> str:
    """The page of the node's readings."""
    rows = [f"| `{s.name}{'/<' + s.per + '>' if s.per else ''}` | {s.unit} | {s.meaning} |" for s in NODE_SERIES]
    return "\n".join(
        [
            "# The node's readings",
            "",
            "<!-- Generated from outside/node/series.py by scripts/generate_docs.py; edit there. -->",
            "",
            "Sampled once a second by `tm` itself, all of them in the run log; the few that matter to a training run",
            "are published as `trainmeter/node/…`. A reading that this machine does not give is absent.",
            "",
            "| reading | unit | meaning |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


PAGES = {"spec.md": spec, "node.md": node}


def main() -> int:
    check = "--check" in sys.argv[1:]
    stale = [name for name, page in PAGES.items() if _text(DOCS / name) != page()]
    if check:
        for name in stale:
            print(f"docs/{name} is not what the code says; run `make docs`")
        return 1 if stale else 0
    for name in stale:
        (DOCS / name).write_text(PAGES[name](), encoding="utf-8")
        print(f"wrote docs/{name}")
    return 0


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
