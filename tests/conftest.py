"""Under test, what production swallows is raised; and the suite's runs never touch the user's own state directory."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile

import pytest

os.environ["TRAINMETER_STRICT"] = "1"
if "TRAINMETER_HOME" not in os.environ:
    os.environ["TRAINMETER_HOME"] = tempfile.mkdtemp(prefix="trainmeter-tests-")
    atexit.register(shutil.rmtree, os.environ["TRAINMETER_HOME"], ignore_errors=True)

# A suite started in the background or under nohup hands ignored signals on to every program it starts, tm among them.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def mlflow_leaves_nothing():
    """MLflow puts a program's address and experiment into its environment, where the next test's program finds them."""
    before = {name: value for name, value in os.environ.items() if name.startswith("MLFLOW_")}
    yield
    for name in [name for name in os.environ if name.startswith("MLFLOW_") and name not in before]:
        del os.environ[name]
    os.environ.update(before)
