#!/usr/bin/env bash
# What CI runs: the checks, then the tests against the wheel that is built here; the argument is the bin directory.
set -euo pipefail
bin=${1:-.venv/bin}

# A browser, a terminal multiplexer, a Prometheus: CI brings them itself, elsewhere the tests that need them skip and say so.
if [ "${CI:-}" = true ] && ! { command -v chromium && command -v tmux && command -v prometheus; } >/dev/null 2>&1; then
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium tmux prometheus >/dev/null
fi

# What is only fetched comes while the checks run: the tools that FLOPs are compared with, and TensorFlow, which shares an
# environment with nothing else.
bash scripts/differential.sh "$bin" &
differential=$!
if [ "${CI:-}" = true ] && [ ! -e .venv-tf ]; then
  ("$bin/python" -m venv .venv-tf && .venv-tf/bin/python -m pip --quiet --disable-pip-version-check install 'tensorflow-cpu==2.21.*' tensorboard ||
    { rm -rf .venv-tf && echo "TensorFlow cannot be installed here: its tests run with the stand-in alone"; }) &
  tensorflow=$!
fi

bash scripts/check.sh "$bin"
"$bin/python" -m pip --quiet --disable-pip-version-check install --no-deps --force-reinstall .
wait "$differential"
[ -z "${tensorflow:-}" ] || wait "$tensorflow"
"$bin/python" -m pytest -n 2 --dist loadfile
