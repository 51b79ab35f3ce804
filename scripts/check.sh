#!/usr/bin/env bash
# Format, lint, types and import rules; the argument is the environment's bin directory.
set -euo pipefail
bin=${1:-.venv/bin}
"$bin/ruff" format --check .
"$bin/ruff" check .
"$bin/mypy"
PYTHONPATH=src "$bin/lint-imports"
