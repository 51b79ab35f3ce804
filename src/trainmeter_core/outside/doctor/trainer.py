"""The lines about the trainer's Python: does the agent wake there, is torch there, does each tracker's tap fit."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from typing import Any

from trainmeter_core.inside.probe import MARK
from trainmeter_core.outside.environment import agent_environment
from trainmeter_core.outside.spool import Spool
from trainmeter_core.plugins import find_plugins
from trainmeter_core.version import __version__

from .line import Line

_TIMEOUT_S = 300.0  # torch from a cold network file system
_PROBE = "from trainmeter_core.inside.probe import main; main()"
_TAPS = ("backward", "checkpoint", "data", "model", "optimizer", "scaler")
_ABSENT = "not installed"


def own() -> list[Line]:
    """About tm itself."""
    found, broken = find_plugins()
    lines = [Line("tm", "trainmeter", "ok", f"{__version__} in {sys.executable} (Python {sys.version.split()[0]})")]
    names = ", ".join(plugin.name for plugin in found)
    lines.append(Line("tm", "adapters", "ok", names) if found else Line("tm", "adapters", "missing", "none found"))
    return lines + [Line("tm", f"adapter {name}", "problem", why, "update or uninstall it") for name, why in broken]


def lines(python: str, environ: dict[str, str]) -> list[Line]:
    """Start `python` as a run would, and let it tell what it found."""
    plugins, _ = find_plugins()
    spool = Spool(f"doctor-{os.getpid()}-{secrets.token_hex(3)}")
    try:
        env = agent_environment(
            environ, run_id="doctor", run_dir=spool.path, spool=spool.path, options={}, plugins=plugins, no_taps=()
        )
        done = subprocess.run(  # noqa: S603 - the Python that the user's runs start
            [python, "-c", _PROBE], env=env, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except OSError as error:
        return [Line("python", "Python", "problem", f"{python}: {error.strerror}", "choose another: --python PATH")]
    except subprocess.TimeoutExpired:
        return [Line("python", "Python", "problem", f"{python} did not end in {_TIMEOUT_S:.0f} s", "try it by hand")]
    finally:
        spool.remove()
    told = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    if not told:
        return [Line("python", "Python", "ok", python), _asleep(done.stderr)]
    answers = json.loads(told[-1][len(MARK) :])
    if not answers["awake"]:
        return [Line("python", "Python", "ok", f"{answers['python']} at {python}"), _asleep("PYTHONPATH is not read")]
    return _answers(python, answers)


def _asleep(stderr: str) -> Line:
    last = next((line for line in reversed(stderr.splitlines()) if line.strip()), "it said nothing")
    return Line(
        "python",
        "agent",
        "problem",
        f"does not wake: {last.strip()}",
        "PYTHONPATH must reach this Python (no -I, -E or -S), and it must be 3.8 or newer",
    )


def _answers(python: str, told: dict[str, Any]) -> list[Line]:
    lines = [
        Line("python", "Python", "ok", f"{told['python']} at {python}"),
        Line("python", "agent", "ok", "wakes in it"),
        *_torch(told["torch"]),
    ]
    for plugin in told["plugins"]:
        if "error" in plugin:
            lines.append(Line("tracker", plugin["name"], "problem", plugin["error"], "update trainmeter"))
        for name, ok, detail, advice in plugin.get("checks", ()):
            state = "problem" if not ok else "missing" if detail.startswith(_ABSENT) else "ok"
            lines.append(Line("tracker", name, state, detail, advice))  # type: ignore[arg-type]
    return lines


def _torch(torch: dict[str, Any]) -> list[Line]:
    if "error" in torch:
        if torch.get("missing"):
            return [Line("python", "torch", "missing", _ABSENT, "choose the trainer's Python: --python PATH")]
        return [Line("python", "torch", "problem", torch["error"], "try: python -c 'import torch'")]
    platform = f"CUDA {torch['cuda']}" if torch["cuda"] else f"ROCm {torch['hip']}" if torch["hip"] else "CPU only"
    found = [Line("python", "torch", "ok", f"{torch['version']}, {platform}")]
    lacking = [tap for tap in _TAPS if tap not in torch["taps"]]
    failed = "; ".join(f"{site}: {first}" for site, first in torch["failures"].items())
    if lacking or failed:
        detail = (f"not installed: {', '.join(lacking)}" if lacking else "") + (f" ({failed})" if failed else "")
        found.append(Line("python", "taps", "problem", detail.strip(), "update trainmeter: this torch is new to it"))
    else:
        found.append(Line("python", "taps", "ok", ", ".join(torch["taps"])))
    return found
