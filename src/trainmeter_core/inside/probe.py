"""What `tm doctor` runs in the trainer's Python: says what the agent found there, as one line of JSON."""

from __future__ import annotations

import json
import os
import sys

from .guard import failures

MYPY = False
if MYPY:
    from typing import Any

MARK = "trainmeter-probe "


def main() -> None:
    """Import torch and ask every adapter's doctor hook; print the answers behind MARK.

    Where trainmeter is installed in this very Python, this runs although the agent was kept out: asked first.
    """
    awake = __package__ + ".bootstrap" in sys.modules
    told = {"python": sys.version.split()[0], "awake": awake, "torch": _torch(), "plugins": _plugins()}
    print("\n" + MARK + json.dumps(told))  # noqa: T201


def _torch() -> dict[str, Any]:
    try:
        torch = __import__("torch")
    except ImportError as error:
        return {"error": str(error), "missing": getattr(error, "name", "") == "torch"}
    except Exception as error:  # noqa: BLE001 - a broken installation fails in any way
        return {"error": type(error).__name__ + ": " + str(error)}
    from .this_process import current_agent

    agent = current_agent()
    return {
        "version": str(torch.__version__),
        "cuda": getattr(torch.version, "cuda", None),
        "hip": getattr(torch.version, "hip", None),
        "taps": sorted({name for name, _ in agent.undo}) if agent is not None else [],
        "failures": {name: place.first for name, place in failures().items()},
    }


def _plugins() -> list[dict[str, Any]]:
    from .bootstrap import plugin_table
    from .loader import load_pluggy, load_plugin

    found: list[dict[str, Any]] = []
    load_pluggy()
    from ..plugins import manager_of_one

    for name, module, directory, _ in plugin_table(os.environ.get("TRAINMETER_PLUGINS", "")):
        try:
            answers = manager_of_one(name, load_plugin(module, directory)).hook.doctor()
            found.append({"name": name, "checks": [list(check) for checks in answers for check in checks]})
        except Exception as error:  # noqa: BLE001 - a third party's adapter, or its tracker
            found.append({"name": name, "error": type(error).__name__ + ": " + str(error)})
    return found
