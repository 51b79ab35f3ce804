"""trainmeter in Trackio: its series ride in the rows that the user logs, and the passport comes with the last one."""

from __future__ import annotations

import functools
import shlex

from trainmeter_core.hookspecs import hookimpl
from trainmeter_core.passport import markdown


@hookimpl
def tracker_modules():
    return ["trackio.run"]


@hookimpl
def install_tap(module, agent):
    run_class = module.Run
    original_log, original_finish = run_class.log, run_class.finish
    guard = agent.guard("trackio")
    steps = {}  # of each open run: the step of its newest row

    @functools.wraps(original_log)
    def log(self, metrics, step=None):
        merged = metrics
        with guard:
            if self.id not in steps:
                agent.publishes_to("trackio", project=self.project, run=self.name)
            steps[self.id] = step
            agent.observe(metrics, step)
            merged = {**(agent.row(reader=self.id) or {}), **metrics}
        with agent.logging():
            return original_log(self, merged, step)

    @functools.wraps(original_finish)
    def finish(self):
        with guard:
            if self.id in steps:
                last = dict(agent.row(final=True, reader=self.id) or {})
                passport = agent.passport()
                if passport:
                    last["trainmeter/passport"] = module.Markdown(markdown.render(passport))
                original_log(self, last, steps.pop(self.id))
        return original_finish(self)

    run_class.log, run_class.finish = log, finish

    def undo():
        run_class.log, run_class.finish = original_log, original_finish

    return undo


@hookimpl
def where(tracker, place):
    return "trackio show --project " + shlex.quote(place["project"]) if tracker == "trackio" else None
