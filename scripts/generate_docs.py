"""Write the pages of docs/ that are tables of the code itself; `--check` only says which are out of date."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainmeter_core.flops import CONVENTIONS
from trainmeter_core.outside.node.series import SERIES as NODE_SERIES
from trainmeter_core.passport import schema
from trainmeter_core.passport.leaves import kind_of
from trainmeter_core.passport.same import MAY_DIFFER
from trainmeter_core.series import PREFIX, SERIES

if TYPE_CHECKING:
    from collections.abc import Iterator

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


PASSPORT_HEAD = """# The passport

<!-- Generated from src/trainmeter_core/passport/ by scripts/generate_docs.py; edit there. -->

What a run spent and how well it used its hardware, as `passport.json` and `passport.md` in its run directory. Get it
with `tm passport` (the latest run), `tm passport RUN` or a run in a tracker; `--json`, `--md`, `--html`, `--card` (a
model card with metadata), `--out FILE`; several runs make a table.

- A number is `{value, unit, source}`. Its source is one of: measured (a clock or counter), counted (steps, tokens,
  bytes), formula (follows from other numbers in the same passport), user (given to `tm` or logged), assumed (a table,
  equal ranks, the goal of the framework). A value that is not known is null, and `gaps` has the reason.
- `tm passport --check FILE` computes again what follows from other fields of the passport and names what does not hold;
  the digest tells an edit of any other field. Below, `follows` is what is computed again, `input` what it is computed
  from, and `told` what only the digest guards; units and sources follow everywhere. It proves no author.
- Prices and carbon factors are no part of it: `--usd-per-gpu-hour` and `--kgco2-per-kwh` show them beside it.
"""


LOST_STEPS = """
## Restarts and lost steps

A run is restarted when a launcher starts a rank anew, or when another command goes on with its run directory ([ways
to start](starting.md)). What is counted when, of the processes of one rank:

- A process **follows** another one if it began after that one had ended: after its last step, or its exit where it
  could still tell of that; and the other one did not make it (a parent lives on beside its child, however silent). A
  start is known to 0.01 s.
- Processes that follow each other are a line, and each but the first of a line is a restart. A rank has as many lines
  as it ever had processes at once: a forked child that trains beside its parent, or workers that share a rank, are
  lines of their own, and no restarts. `time.restarts` is that of the longest line, or the number of commands that went
  on with the run where that is more.
- Steps, tokens, samples and FLOPs are the sums over all processes, one after another or at once. The seconds that rates
  are taken over (`steady.seconds`) are those in which any process of the rank was after its first step: shared ones
  count once. So tokens/s and MFU are the run's, and `step_time_s` is the time from one step of any of them to the next,
  which may be less than the shortest step. The seconds by kind of time are those of every process.

Every step that was made counts in `data.steps`, tokens and FLOPs, repeated ones as well. `time.lost_steps` are those
among them whose work was thrown away: the steps beyond the point that a restart went on from. That point is told by the
first of these that is known:

1. The optimizer's own count of its steps, restored with it (Adam and its like keep one; one that lies on a device is
   not read, for that would synchronize it). Source: counted.
2. The file that was loaded before the first step (`torch.load`, safetensors, `torch.distributed.checkpoint`), where
   this run was seen to save it; files are known by inode number and size. Source: counted.
3. Nothing was loaded, and the optimizer's own count is at nothing: the run began anew, and all steps before are lost.
   Source: counted.
4. The last save that was seen. Source: assumed.

Where none is known, `lost_steps` is null. Of several ranks, and of several lines of one, the one that lost most
counts; a process beside another one throws nothing away. Progress towards a budget in tokens, steps or FLOPs leaves
lost steps out, at their mean share.
"""


def passport() -> str:
    """The page of the passport's fields."""
    described = schema.load()
    lines = [PASSPORT_HEAD, "## Fields", "", "| field | type | check | meaning |", "|---|---|---|---|"]
    lines += [f"| `{name}` | {kind} | {_checked(name)} | {meaning} |" for name, kind, meaning in _fields("", described)]
    lines += LOST_STEPS.rstrip().splitlines()
    lines += ["", "## The same run from its directory and from a tracker", "", "Equal but for these fields:", ""]
    lines += ["| field | why it may differ |", "|---|---|"]
    lines += [f"| `{name}` | {reason} |" for name, reason in MAY_DIFFER.items()]
    return "\n".join([*lines, ""])


def _checked(name: str) -> str:
    """What a check does with a field; nothing for one whose parts differ."""
    try:
        return kind_of(tuple(name.split(".")))
    except KeyError:
        return ""


def _fields(path: str, node: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    for name, field in node.get("properties", {}).items():
        full = f"{path}.{name}" if path else name
        meaning = field.get("description", "").replace("|", "\\|")
        if "properties" in field:
            yield full, "object", meaning
            yield from _fields(full, field)
            continue
        yield full, _kind(field), meaning


def _kind(field: dict[str, Any]) -> str:
    reference: str = field.get("$ref", "")
    kind = field.get("type", reference.rpartition("/")[2].replace("_", " ") or "any")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


PAGES = {"spec.md": spec, "node.md": node, "passport.md": passport}


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
