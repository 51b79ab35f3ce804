"""The benchmarks are not run by tests, but what they import is there: a room that moves takes them along."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BENCHMARKS = sorted((ROOT / "benchmarks").glob("*.py"))


def imported(source: str) -> set[str]:
    """The modules that a file imports, wherever it does."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def is_there(module: str, source: str) -> bool:
    """Ours lie beside the benchmark, in a folder of tests that it names, or in src."""
    beside = [ROOT / "benchmarks", *(each for each in (ROOT / "tests").iterdir() if f'"{each.name}"' in source)]
    if any((folder / (module + ".py")).exists() for folder in beside):
        return True
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_what_a_benchmark_imports_is_there(path):
    source = path.read_text()
    missing = {module for module in imported(source) if not is_there(module, source)}
    # Programs to measure ours against: a benchmark says itself what to install.
    assert missing <= {"traceml_ai", "mfu_tracker"}, missing
