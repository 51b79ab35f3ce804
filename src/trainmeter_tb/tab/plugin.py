"""The tab's face to TensorBoard: routes, the built frontend, and nothing that it stores."""

# mypy: disallow_untyped_decorators = False
# werkzeug's decorator comes with tensorboard, which has no types.
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tensorboard import errors, plugin_util
from tensorboard.backend import http_util
from tensorboard.plugins.base_plugin import FrontendMetadata, TBContext, TBPlugin
from werkzeug import wrappers

from trainmeter_tb.events import OWN_PLUGIN

from .data import MOST_RUNS, Passports, Source, ladder_of, series_of_runs, watched_runs
from .words import differences

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

STATIC = os.path.join(os.path.dirname(__file__), "static")

# The only files that are served; a request names none itself.
FILES = {"index.js": "text/javascript", "index.css": "text/css"}


class TrainmeterTab(TBPlugin):
    """Reads through `context.data_provider` alone, so that it works with every data server."""

    plugin_name = OWN_PLUGIN

    def __init__(self, context: TBContext) -> None:
        self._provider = context.data_provider
        self._passports = Passports()

    def is_active(self) -> bool:
        """False: TensorBoard itself finds a run of ours by the plugin's name in its tensors."""
        return False

    def frontend_metadata(self) -> FrontendMetadata:
        """One ES module, loaded in a frame."""
        return FrontendMetadata(es_module_path="/static/index.js", tab_name="trainmeter")

    def get_plugin_apps(self) -> Mapping[str, Callable[..., Any]]:
        """The routes below ``data/plugin/trainmeter``."""
        routes: dict[str, Callable[..., Any]] = {"/runs": self.runs, "/data": self.data, "/node": self.node}
        for name, content_type in FILES.items():
            routes["/static/" + name] = _file(os.path.join(STATIC, name), content_type)
        return routes

    @wrappers.Request.application
    def runs(self, request: wrappers.Request) -> wrappers.Response:
        """Give all runs of ours."""
        return http_util.Respond(request, {"runs": watched_runs(self._source(request))}, "application/json")

    @wrappers.Request.application
    def data(self, request: wrappers.Request) -> wrappers.Response:
        """Give series, ladder and passport of the runs asked for, and what sets the others apart from the first."""
        source, runs = self._source(request), _runs_in(request)
        found = series_of_runs(source, runs, node=False)
        passports = self._passports.of_runs(source, runs)
        for run, content in found.items():
            content["ladder"] = ladder_of(content["series"])
            content["passport"] = passports.get(run)
        first = runs[0]
        told = [
            {"run": run, "against": first, "sentences": differences(found[first]["series"], found[run]["series"])}
            for run in runs[1:]
        ]
        return http_util.Respond(request, {"runs": found, "differences": told}, "application/json")

    @wrappers.Request.application
    def node(self, request: wrappers.Request) -> wrappers.Response:
        """Give the node's own readings of the runs asked for."""
        found = series_of_runs(self._source(request), _runs_in(request), node=True)
        return http_util.Respond(request, {"runs": found}, "application/json")

    def _source(self, request: wrappers.Request) -> Source:
        context = plugin_util.context(request.environ)
        return Source(self._provider, context, plugin_util.experiment_id(request.environ))


def _runs_in(request: wrappers.Request) -> list[str]:
    runs = list(dict.fromkeys(request.args.getlist("run")))
    if not 0 < len(runs) <= MOST_RUNS:
        raise errors.InvalidArgumentError(f"name 1 to {MOST_RUNS} runs")
    return runs


def _file(path: str, content_type: str) -> Callable[..., Any]:
    @wrappers.Request.application
    def serve(request: wrappers.Request) -> wrappers.Response:
        with open(path, "rb") as file:
            return http_util.Respond(request, file.read(), content_type)

    return serve  # type: ignore[no-any-return]
