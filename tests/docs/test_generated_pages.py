"""The pages that are tables of the code agree with the code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_generated_pages_are_what_the_code_says():
    """`scripts/generate_docs.py --check` finds nothing to rewrite."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "generate_docs.py"), "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_table_of_programs_is_what_the_suite_says():
    """`scripts/compatibility.py --check` finds nothing to rewrite."""
    script = ROOT / "scripts" / "compatibility.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
