"""Being called after an import, without a trace on the module, its loader or its spec."""

from __future__ import annotations

import importlib
import inspect
import sys
from typing import TYPE_CHECKING

import pytest

from tests.known import known
from trainmeter_core.inside import guard, import_hooks
from trainmeter_core.inside.import_hooks import PostImportFinder

if TYPE_CHECKING:
    import types


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    """The import system as it was, and no hook of an earlier test."""
    monkeypatch.setattr(import_hooks, "_waiting", {})
    monkeypatch.setattr(guard, "_sites", {})
    monkeypatch.setattr(guard, "STRICT", False)
    finders = list(sys.meta_path)
    yield
    import_hooks.remove()
    assert sys.meta_path == finders


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Makes a module and gives its name; it is forgotten afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    made = []

    def make(source: str, name: str = "tapped_module") -> str:
        (tmp_path / f"{name}.py").write_text(source)
        importlib.invalidate_caches()
        made.append(name)
        return name

    yield make
    for name in made:
        sys.modules.pop(name, None)


def wait_for(*names: str) -> list[types.ModuleType]:
    seen: list[types.ModuleType] = []
    import_hooks.install(dict.fromkeys(names, seen.append))
    return seen


def test_the_hook_runs_once_after_the_module_was_executed(module):
    name = module("value = 1\nvalue = 2\n")
    seen = []
    import_hooks.install({name: lambda m: seen.append(m.value)})
    imported = importlib.import_module(name)
    importlib.import_module(name)
    assert seen == [2]
    assert sys.modules[name] is imported


def test_loader_spec_and_source_stay_what_they_were(module):
    name = module("def f():\n    return 1\n")
    bare = importlib.import_module(name)
    before = {k: type(v) for k, v in vars(bare.__loader__).items()}, dir(bare), type(known(bare.__spec__).loader)
    del sys.modules[name]
    seen = wait_for(name)
    hooked = importlib.import_module(name)
    assert seen == [hooked]
    assert (
        {k: type(v) for k, v in vars(hooked.__loader__).items()},
        dir(hooked),
        type(known(hooked.__spec__).loader),
    ) == before
    assert inspect.getsource(hooked.f) == "def f():\n    return 1\n"
    assert known(hooked.__spec__).loader is hooked.__loader__
    assert known(importlib.util.find_spec(name)).origin == hooked.__file__


def test_reloading_afterwards_is_the_modules_own_affair(module):
    name = module("runs = globals().get('runs', 0) + 1\n")
    seen = wait_for(name)
    hooked = importlib.import_module(name)
    assert importlib.reload(hooked).runs == 2
    assert len(seen) == 1


def test_a_module_that_is_there_already_is_reported_at_once(module):
    imported = importlib.import_module(module("x = 1\n"))
    assert wait_for("tapped_module") == [imported]
    assert PostImportFinder not in sys.meta_path


def test_a_missing_module_is_missed_as_without_us_and_waited_for_on(module):
    seen = wait_for("tapped_module")
    with pytest.raises(ModuleNotFoundError) as caught:
        importlib.import_module("tapped_module")
    assert (caught.value.name, str(caught.value)) == ("tapped_module", "No module named 'tapped_module'")
    module("x = 1\n")
    importlib.import_module("tapped_module")
    assert len(seen) == 1


def test_a_module_that_raises_raises_its_own_and_is_not_reported(module):
    seen = wait_for(module("raise LookupError('theirs')\n"))
    with pytest.raises(LookupError, match="theirs"):
        importlib.import_module("tapped_module")
    assert "tapped_module" not in sys.modules
    assert seen == []


def test_a_failing_hook_is_counted_and_the_import_stands(module):
    def fail(_):
        raise ValueError("ours")

    import_hooks.install({module("x = 1\n"): fail})
    assert importlib.import_module("tapped_module").x == 1
    assert guard.failures()["import of tapped_module"].count == 1


def test_other_modules_never_meet_us(module):
    wait_for("tapped_module")
    other = importlib.import_module(module("x = 1\n", "other_module"))
    assert other.x == 1
    assert "exec_module" not in vars(other.__loader__)


def test_the_finder_leaves_with_the_last_module_it_waited_for(module):
    wait_for(module("x = 1\n"), module("y = 1\n", "second_module"))
    importlib.import_module("tapped_module")
    assert sys.meta_path[0] is PostImportFinder
    importlib.import_module("second_module")
    assert PostImportFinder not in sys.meta_path


def test_looking_a_module_up_is_not_importing_it(module):
    """`find_spec` by whoever looks for optional packages: a later import is still seen."""
    name = module("x = 1\n")
    seen = wait_for(name)
    assert importlib.util.find_spec(name) is not None
    assert seen == []
    importlib.import_module(name)
    assert len(seen) == 1
