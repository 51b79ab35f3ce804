"""The end of a run, written through the client: one row with the panels, the summary, the config and the artifact."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping

from trainmeter_core.passport import markdown, page

from .panels import PASSPORT, Panel, panels
from .place import is_offline
from .summary import CONFIG_KEY, config_of, summary_of

if TYPE_CHECKING:
    from types import ModuleType

ARTIFACT_TYPE = "trainmeter-passport"

_ASKS = "_server_accepts_client_ids"


def close(run: Any, log: Callable[..., Any], last: Mapping[str, float], passport: Mapping[str, Any] | None) -> None:
    """Write the end of a run that is still live.

    `log` is the client's own ``Run._log``; `last` the newest series with prefix; `passport` None where it is not known.
    """
    wandb = sys.modules["wandb"]
    summary = summary_of(passport, last)
    row: dict[str, Any] = dict(last)
    for panel in panels(passport, summary):
        row[panel.key] = _drawn(wandb, panel)
    if passport is not None:
        row[PASSPORT] = wandb.Html(page.render(passport), inject=False)
    with _without_asking_the_server(run):
        log(run, row, commit=True)
        run.summary.update(summary)
        if passport is not None:
            run.config.update({CONFIG_KEY: config_of(passport)}, allow_val_change=True)
            run.log_artifact(artifact(wandb, str(run.id), passport))


class _NoServer:
    """Stands for the client's API object, which asks the server for leave when it is made: answers nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_args, **_kwargs: None


@contextlib.contextmanager
def _without_asking_the_server(run: Any) -> Iterator[None]:
    """Hand tables and artifacts to the client's own process without its questions to the server before it.

    For each table the client asks whether another artifact has its name, and waits; with a server that is gone, for
    20 seconds. Older clients ask for the server's version as well. The end of the user's run must not wait. What
    is set on the run object, and in that module, is taken away again.
    """
    put = {"_assert_can_log_artifact": lambda _artifact: None, "_public_api": lambda *_args: _NoServer()}
    put = {name: stand_in for name, stand_in in put.items() if name not in vars(run) and hasattr(run, name)}
    values: Any = sys.modules.get("wandb.sdk.data_types.base_types.wb_value")
    asks = None if is_offline(run.settings) else getattr(values, _ASKS, None)
    for name, stand_in in put.items():
        setattr(run, name, stand_in)
    if asks is not None:
        setattr(values, _ASKS, lambda: True)  # every server since 2021 does
    try:
        yield
    finally:
        for name in put:
            delattr(run, name)
        if asks is not None:
            setattr(values, _ASKS, asks)


def artifact(wandb: ModuleType, run_id: str, passport: Mapping[str, Any]) -> Any:
    """Give the passport as an artifact; the same passport is the same version."""
    made = wandb.Artifact(artifact_name(run_id), type=ARTIFACT_TYPE)
    with made.new_file("passport.json") as file:
        json.dump(passport, file, indent=1)
    with made.new_file("passport.md") as file:
        file.write(markdown.render(dict(passport)))
    return made


def artifact_name(run_id: str) -> str:
    """Name the artifact of a run; a name may hold letters, digits, dashes, underscores and dots."""
    return "trainmeter-passport-" + re.sub(r"[^A-Za-z0-9_.-]", "_", run_id)


def _drawn(wandb: ModuleType, panel: Panel) -> Any:
    table = wandb.Table(columns=list(panel.columns), data=panel.rows)
    if not panel.title:
        return table
    return wandb.plot.bar(table, panel.columns[0], panel.columns[1], title=panel.title)
