"""Each test of the tap runs with both packages that write event files."""

from __future__ import annotations

import importlib
import os
from types import SimpleNamespace

import pytest

from tests.tb.agent_in_test import Agent
from tests.tb.tf_python import TF_PYTHON
from trainmeter_tb import plugin

# In CI no test may be skipped; where TensorFlow cannot be installed there, its own tests are left out as a whole.
collect_ignore = ["test_real_tensorflow.py"] if TF_PYTHON is None and os.environ.get("CI") == "true" else []

PACKAGES = {
    "torch": ("torch.utils.tensorboard", "tensorboard.summary.writer.event_file_writer"),
    "tensorboardX": ("tensorboardX", "tensorboardX.event_file_writer"),
}


@pytest.fixture(params=list(PACKAGES))
def package(request):
    user_module, tapped_module = PACKAGES[request.param]
    pytest.importorskip(user_module)
    return SimpleNamespace(
        name=request.param,
        SummaryWriter=importlib.import_module(user_module).SummaryWriter,
        module=importlib.import_module(tapped_module),
    )


@pytest.fixture
def agent():
    return Agent()


@pytest.fixture
def tapped(package, agent):
    """The package with the tap in; taken out again afterwards."""
    undo = plugin.install_tap(package.module, agent)
    yield package
    undo()
    plugin._publishers.clear()
