"""The TensorBoard that tm starts: which port it gets, and that it is never tm's to wait for."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import sys

import pytest

from tests.known import known
from trainmeter_tb import plugin, server


def test_the_first_free_port_is_taken():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        assert server.free_port(taken) > taken


def test_no_port_beyond_the_last_is_tried():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 65535))
        other.listen()
        with pytest.raises(OSError, match="no port is free from 65535 on"):
            server.free_port(65535)


@pytest.mark.parametrize(
    ("tracker", "place"),
    [
        ("wandb", {"directory": "/tmp"}),
        ("tensorboard", {"logdir": "gs://bucket/run"}),
        ("tensorboard", {"logdir": "/not/there"}),
        ("", {}),
    ],
)
def test_what_it_cannot_show_it_leaves_to_others(tracker, place):
    assert plugin.serve_local(tracker, place, 0, keep=False) is None


def test_it_is_none_without_tensorboard(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    assert server.serve(str(tmp_path), 0, keep=False) is None


def test_starting_and_ending_it_waits_for_nothing(tmp_path):
    """Ended while it still loads, it is gone at once."""
    mine = known(server.serve(str(tmp_path), 0, keep=False))
    assert not mine.is_up()
    assert not mine.is_gone()
    mine.close()
    assert mine.is_gone()
    mine.close()


def test_one_whose_parent_is_gone_already_does_not_begin():
    """The parent may have been killed before the kernel was asked to tell."""
    program = "from trainmeter_tb.server import die_with; die_with(1 << 30); print('goes on')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")
