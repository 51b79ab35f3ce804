"""Each test of the tap runs with both packages that write event files."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import pytest
from agent_in_test import Agent

from trainmeter_tb import plugin

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
