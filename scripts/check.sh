#!/usr/bin/env bash
# Format, lint, types and import rules; the argument is the environment's bin directory.
set -euo pipefail
bin=${1:-.venv/bin}
"$bin/ruff" format --check .
"$bin/ruff" check --no-cache .  # what it remembers of a file does not know of a package that came about since
"$bin/mypy"
PYTHONPATH=src "$bin/lint-imports"
