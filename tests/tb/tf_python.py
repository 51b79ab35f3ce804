"""Where TensorFlow is: too large for the environment of the other tests, it has one of its own."""

from __future__ import annotations

import os
from pathlib import Path

_BESIDE = Path(__file__).parents[2] / ".venv-tf" / "bin" / "python"

TF_PYTHON = os.environ.get("TRAINMETER_TF_PYTHON") or (str(_BESIDE) if _BESIDE.exists() else None)
