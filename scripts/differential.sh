#!/usr/bin/env bash
# The tools that our FLOPs are checked against, into .venv/differential; the argument is the bin directory.
# Without their dependencies, and beside the environment: nothing here can change what the tests run on.
set -euo pipefail
bin=${1:-.venv/bin}
list=tests/flops/differential/requirements.txt
target=$(dirname "$bin")/differential
if ! cmp -s "$list" "$target/requirements.txt"; then
  rm -rf "$target"
  # DeepSpeed comes as source, and builds nothing when it is told so.
  DS_BUILD_OPS=0 "$bin/python" -m pip --quiet --disable-pip-version-check install --no-deps --target "$target" -r "$list"
  cp "$list" "$target/requirements.txt"
fi
