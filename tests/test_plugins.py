"""Adapters: found by entry point, each alone, and a broken one costs only itself."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pluggy
import pytest

from trainmeter_core import plugins
from trainmeter_core.hookspecs import Hooks, hookimpl
from trainmeter_core.plugins import find_plugins, manager_of_one


def module(name="an_adapter", **hooks):
    made = types.ModuleType(name)
    made.__file__ = f"/somewhere/{name}.py"
    for hook, function in hooks.items():
        function.__name__ = hook
        setattr(made, hook, hookimpl(function))
    return made


@pytest.fixture
def offered(monkeypatch):
    """Offers modules by entry point; one that is None cannot be imported."""

    def offer(**modules):
        entries = [types.SimpleNamespace(name=name, value="adapter_" + name) for name in modules]
        monkeypatch.setattr(plugins, "entry_points", lambda group: entries if group == "trainmeter" else [])
        for name, made in modules.items():
            monkeypatch.setitem(sys.modules, "adapter_" + name, made)

    return offer


def test_the_installed_adapter_is_found_with_its_directory_and_trackers():
    found, broken = find_plugins()
    [tensorboard] = [plugin for plugin in found if plugin.name == "tensorboard"]
    assert broken == []
    assert tensorboard.module == "trainmeter_tb.plugin"
    assert (Path(tensorboard.directory) / "trainmeter_tb" / "plugin.py").is_file()
    assert "tensorboard.summary.writer.event_file_writer" in tensorboard.trackers


def test_one_may_be_left_out():
    assert "tensorboard" not in [plugin.name for plugin in find_plugins(without=["tensorboard"])[0]]


def test_a_broken_adapter_costs_only_itself(offered):
    offered(
        missing=None,
        raises=module(tracker_modules=lambda: 1 / 0),
        good=module(tracker_modules=lambda: ["some.tracker"]),
        without_trackers=module("other"),
    )
    found, broken = find_plugins()
    assert [(plugin.name, plugin.trackers, plugin.directory) for plugin in found] == [
        ("good", ("some.tracker",), "/somewhere"),
        ("without_trackers", (), "/somewhere"),
    ]
    assert [(name, why.partition(":")[0]) for name, why in broken] == [
        ("missing", "ModuleNotFoundError"),
        ("raises", "ZeroDivisionError"),
    ]


def test_a_wrapper_is_refused():
    made: Any = types.ModuleType("wraps")

    def finish(agent):
        yield

    made.finish = hookimpl(wrapper=True)(finish)
    with pytest.raises(ValueError, match="adapter wraps implements finish as a wrapper"):
        manager_of_one("wraps", made)


def test_a_hook_that_no_specification_has_is_refused():
    with pytest.raises(pluggy.PluginValidationError):
        manager_of_one("typo", module(publis=lambda row: None))


def test_managers_do_not_know_each_other():
    one = manager_of_one("one", module(where=lambda tracker, place: "one"))
    two = manager_of_one("two", module(where=lambda tracker, place: None))
    assert one.hook.where(tracker="t", place={}) == "one"
    assert two.hook.where(tracker="t", place={}) is None


def test_every_hook_says_where_it_runs():
    for name, hook in vars(Hooks).items():
        if not name.startswith("_"):
            for word in ("Process:", "Thread:", "Rate:", "Returns:"):
                assert word in hook.__doc__, (name, word)


def test_pluggy_is_tms_own_outside_of_a_trainer():
    assert vars(plugins)["pluggy"] is sys.modules["pluggy"]
