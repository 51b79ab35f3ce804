"""Write the table of programs in docs/compatibility.md from the suite; `--check` only says if it is stale."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.e2e.test_programs import PARALLEL, PROGRAM_FILES, PROGRAMS, WITHOUT, Expected  # noqa: E402 - after the path

PAGE = ROOT / "docs" / "compatibility.md"
BEGIN = "<!-- Written by scripts/compatibility.py from tests/e2e/test_programs.py; edit there. -->\n"
END = "<!-- The end of what is written. -->"
_RUN_AS = {"torch.distributed.run": "torchrun", "accelerate.commands.launch": "accelerate launch"}


def table() -> str:
    """One row a program: what it is, and what its passport must hold for the suite to pass."""
    rows = [
        "| program | what it is | steps | tokens | samples | time seen beside training |",
        "|---|---|--:|--:|--:|---|",
    ]
    rows += [_row(name, expected) for name, expected in (*PROGRAMS.items(), *PARALLEL.items())]
    rows += ["", "Nothing to count, and said so:", "", "| program | what it is | why |", "|---|---|---|"]
    rows += [f"| {_link(name)} | {_what(name)} | {why} |" for name, why in WITHOUT.items()]
    return "\n".join([*rows, ""])


def _row(name: str, expected: Expected) -> str:
    steps = str(expected.steps)
    if expected.skipped:
        steps += f" + {expected.skipped} skipped"
    if expected.restarts:
        steps += f", {expected.restarts} restart"
    tokens = "none" if expected.tokens is None else f"{expected.tokens:,}"
    kinds = ", ".join(kind.replace("_", " ") for kind in expected.kinds)
    what = _what(expected.program or name) + _how(expected)
    return f"| {_link(name, expected.program)} | {what} | {steps} | {tokens} | {expected.samples:,} | {kinds} |"


def _how(expected: Expected) -> str:
    """How the case differs from the program alone."""
    said = [f"{name}={value}" for name, value in expected.env]
    for module, command in _RUN_AS.items():
        if module in expected.launcher:
            ranks = next(word.rpartition("=")[2] for word in expected.launcher if word[:4] in ("--np", "--nu"))
            said.append(f"{command}, {ranks} ranks")
    said += [word for word in expected.arguments if word != "{out}"]
    return f" ({'; '.join(said)})" if said else ""


def _link(name: str, program: str = "") -> str:
    return f"[{name}](../tests/e2e/programs/{program or name}.py)"


def _what(program: str) -> str:
    """The first line of the program's file."""
    told = ast.get_docstring(ast.parse((PROGRAM_FILES / f"{program}.py").read_text(encoding="utf-8"))) or ""
    return told.partition("\n")[0].rstrip(".").replace("|", "\\|")


def main() -> int:
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    written = f"{before}{BEGIN}\n{table()}\n{END}{after}"
    if "--check" in sys.argv[1:]:
        if written != page:
            print("docs/compatibility.md is not what the suite says; run `make docs`")
        return int(written != page)
    PAGE.write_text(written, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
