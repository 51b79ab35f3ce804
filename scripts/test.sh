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

code=0
"$bin/python" -m pytest -n 2 --dist loadfile || code=$?
[ "$code" = 1 ] && [ "${CI:-}" = true ] || exit "$code"

# On a machine that others load as well, a server or a terminal may be later than a test waits for. A few tests that failed
# run again with nothing beside them, and are named; one that fails again, or many that failed, fail the whole.
failed=$("$bin/python" -c 'import json; print(*json.load(open(".pytest_cache/v/cache/lastfailed")), sep="\n")')
[ "$(wc -l <<<"$failed")" -le 3 ] || exit 1
printf 'failed beside others, tried again alone:\n%s\n' "$failed"
"$bin/python" -m pytest --last-failed
