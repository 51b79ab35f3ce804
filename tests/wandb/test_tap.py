"""Which clients the tap fits: the installed one, and by signature; one that it does not know is left alone."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import pytest

from tests.wandb.counting_agent import Agent
from trainmeter_wandb.checks import checks
from trainmeter_wandb.publish import Publisher
from trainmeter_wandb.tap import FINISH, LOG, MODULE, START, found, install


def test_the_installed_client_has_the_private_methods_and_doctor_says_that_the_tap_fits():
    cls = importlib.import_module(MODULE).Run
    assert [found(cls, point) for point in (LOG, START, FINISH)] == ["_log", "_on_start", "_finish"]
    assert [check.ok for check in checks()] == [True, True], checks()


class Private:
    def _log(self, data, step=None, commit=None):
        return data

    def log(self, data, step=None, commit=None, sync=None):
        return self._log(data, step, commit)


class OtherOrder(Private):
    def _log(self, data, commit=None, step=None):  # type: ignore[override]  # that is the point
        return data

    def log(self, data, step=None, commit=None, sync=None):
        return self._log(data, commit, step)


class Neither:
    def log(self, metrics):
        return metrics

    _log = property(lambda self: None)


@pytest.mark.parametrize(("run", "name"), [(Private, "_log"), (OtherOrder, "log"), (Neither, None)])
def test_a_method_is_taken_by_its_signature_the_private_one_first(run, name):
    assert found(run, LOG) == name


def test_a_client_that_is_not_known_is_left_as_it_is():
    module: Any = ModuleType("client")
    module.Run = Neither
    before = dict(vars(Neither))
    agent = Agent()
    with pytest.raises(RuntimeError, match="nothing is published"):
        install(module, agent, Publisher(agent))
    assert dict(vars(Neither)) == before
