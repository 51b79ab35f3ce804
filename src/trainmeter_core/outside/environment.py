"""The environment in which the user's command runs: their own, and the few variables that wake the agent."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pluggy

import trainmeter_core
from trainmeter_core.plugins import managers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trainmeter_core.plugins import FoundPlugin

AGENT_DIRECTORY = os.path.join(os.path.dirname(os.path.abspath(trainmeter_core.__file__)), "inside", "site")


def agent_environment(
    base: dict[str, str],
    *,
    run_id: str,
    run_dir: str,
    spool: str,
    options: dict[str, Any],
    plugins: Iterable[FoundPlugin],
    no_taps: Iterable[str],
    count: bool = False,
) -> dict[str, str]:
    """Give a copy of `base` in which every Python that starts finds the agent.

    The directory put on PYTHONPATH holds a sitecustomize and nothing else: no package of tm's environment can be
    imported because of it.
    """
    env = dict(base)
    env["PYTHONPATH"] = AGENT_DIRECTORY + (os.pathsep + base["PYTHONPATH"] if base.get("PYTHONPATH") else "")
    env["TRAINMETER_RUN"] = run_dir
    env["TRAINMETER_RUN_ID"] = run_id
    env["TRAINMETER_SPOOL"] = spool
    env["TRAINMETER_OPTIONS"] = json.dumps({name: value for name, value in options.items() if value is not None})
    env["TRAINMETER_NO_TAP"] = ",".join(no_taps)
    if count:
        env["TRAINMETER_COUNT"] = "1"
    env["TRAINMETER_PLUGGY"] = os.path.dirname(os.path.dirname(os.path.abspath(pluggy.__file__)))
    env["TRAINMETER_PLUGINS"] = "\n".join(
        "\t".join((plugin.name, plugin.module, plugin.directory, ",".join(plugin.trackers))) for plugin in plugins
    )
    return env


def adapters_environment(
    base: Mapping[str, str], plugins: Iterable[FoundPlugin], metrics_url: str
) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Give what the adapters add to the command's environment, and (name, reason) of those that failed."""
    added: dict[str, str] = {}
    failed: list[tuple[str, str]] = []
    for name, manager in managers(plugins):
        try:
            for told in manager.hook.environment(metrics_url=metrics_url, base={**base, **added}):
                added.update(told)
        except Exception as error:  # noqa: BLE001 - a third party's adapter, each alone
            failed.append((name, f"{type(error).__name__}: {error}"))
    return added, failed
