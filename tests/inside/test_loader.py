"""What the agent loads of tm's environment: single packages, and nothing that the user's program could meet by chance."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pluggy
import pytest

from trainmeter_core import _pluggy
from trainmeter_core.inside import loader

SOURCE = str(Path(loader.__file__).parents[2])


def isolated(code: str, *, path: str = "") -> object:
    """Run code in an interpreter that has no packages but the given path's; trainmeter_core as the agent has it."""
    prepared = (
        f"import json, os, sys; sys.path.insert(0, {path!r}) if {path!r} else None\n"
        f"from importlib.util import spec_from_file_location, module_from_spec\n"
        f"core = {SOURCE + '/trainmeter_core'!r}\n"
        "spec = spec_from_file_location('trainmeter_core', core + '/__init__.py', submodule_search_locations=[core])\n"
        "sys.modules['trainmeter_core'] = module_from_spec(spec); spec.loader.exec_module(sys.modules['trainmeter_core'])\n"
        f"os.environ['TRAINMETER_PLUGGY'] = {os.path.dirname(os.path.dirname(pluggy.__file__))!r}\n"
        "from trainmeter_core.inside import loader\n"
    )
    done = subprocess.run([sys.executable, "-S", "-E", "-c", prepared + code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_private_name_of_pluggy_is_one():
    assert loader.PRIVATE_NAME == _pluggy.PRIVATE_NAME


def test_an_adapter_runs_where_there_is_no_pluggy_and_none_can_be_imported_after():
    told = isolated(
        "loader.load_pluggy()\n"
        f"plugin = loader.load_plugin('trainmeter_tb.plugin', {SOURCE!r})\n"
        "from trainmeter_core.plugins import manager_of_one\n"
        "manager = manager_of_one('tensorboard', plugin)\n"
        "def importable(name):\n"
        "    try:\n        __import__(name)\n    except ImportError:\n        return False\n    return True\n"
        "print(json.dumps([manager.hook.tracker_modules()[0],"
        " [importable(n) for n in ('pluggy', 'click', 'psutil', 'rich', 'pytest')]]))"
    )
    assert told == [
        [
            "tensorboard.summary.writer.event_file_writer",
            "tensorboardX.event_file_writer",
            "tensorflow.python.ops.summary_ops_v2",
        ],
        [False] * 5,
    ]


def test_the_users_own_pluggy_stays_theirs(tmp_path):
    (tmp_path / "pluggy.py").write_text("theirs = True\n")
    told = isolated(
        "import pluggy\nbefore = pluggy\nours = loader.load_pluggy()\n"
        f"loader.load_plugin('trainmeter_tb.plugin', {SOURCE!r})\n"
        "import pluggy\nprint(json.dumps([pluggy is before, pluggy.theirs, hasattr(ours, 'PluginManager'), ours is not pluggy]))",
        path=str(tmp_path),
    )
    assert told == [True, True, True, True]


def test_sys_path_is_not_touched():
    told = isolated(
        "before = list(sys.path)\nloader.load_pluggy()\n"
        f"loader.load_plugin('trainmeter_tb.plugin', {SOURCE!r})\nprint(json.dumps(sys.path == before))"
    )
    assert told is True


def test_a_missing_package_is_an_import_error(tmp_path):
    with pytest.raises(ImportError, match="no package nowhere_to_be_found in"):
        loader.load_package("nowhere_to_be_found", str(tmp_path))


def test_a_package_that_raises_leaves_nothing_behind(tmp_path):
    (tmp_path / "broken_adapter.py").write_text("raise LookupError('theirs')\n")
    with pytest.raises(LookupError):
        loader.load_package("broken_adapter", str(tmp_path))
    assert "broken_adapter" not in sys.modules


def test_what_is_loaded_already_is_given_again():
    assert loader.load_package("json", "/nowhere") is json
