"""When tm starts a viewer of its own, and what it says of it; the viewer here is a made-up adapter's."""

from __future__ import annotations

import types
from typing import Any

import pytest

from tests.known import known
from trainmeter_core.hookspecs import hookimpl
from trainmeter_core.outside import web
from trainmeter_core.plugins import manager_of_one


class Viewer:
    url, pid = "http://127.0.0.1:1/", 77

    def __init__(self) -> None:
        self.up = self.gone = self.closed = False
        self.asked: list[tuple] = []

    def is_up(self) -> bool:
        return self.up

    def is_gone(self) -> bool:
        return self.gone

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def viewer(monkeypatch):
    """The viewer of the only adapter there is; `asked` holds what it was asked to show."""
    viewer = Viewer()
    module: Any = types.ModuleType("an_adapter")

    def serve_local(tracker, place, port, keep):
        viewer.asked.append((tracker, dict(place), port, keep))
        return viewer

    module.serve_local = hookimpl(serve_local)
    monkeypatch.setattr(web, "managers", lambda _plugins: [("an_adapter", manager_of_one("an_adapter", module))])
    return viewer


@pytest.mark.parametrize(
    ("asked", "port", "keep", "terminal", "wanted"),
    [
        (None, 0, False, True, True),
        (None, 0, False, False, False),
        (True, 0, False, False, True),
        (False, 8000, True, True, False),
        (None, 8000, False, False, True),
        (None, 0, True, False, True),
    ],
)
def test_a_person_at_a_terminal_gets_it_and_a_batch_job_where_it_asks(monkeypatch, asked, port, keep, terminal, wanted):
    monkeypatch.setattr(web, "_is_terminal", lambda: terminal)
    assert web.Web([], asked=asked, port=port, keep=keep).wanted is wanted


def test_its_address_is_told_once_when_it_answers(viewer):
    mine = web.Web([], asked=True, port=6100, keep=False)
    assert mine.news() is None
    assert mine.start("/run/tb")
    assert viewer.asked == [("", {"directory": "/run/tb"}, 6100, False)]
    assert mine.news() is None
    viewer.up = True
    assert mine.news() == "watch this run: http://127.0.0.1:1/"
    assert mine.news() is None


def test_it_ends_with_the_run(viewer):
    mine = web.Web([], asked=True, port=0, keep=False)
    mine.start("/run/tb")
    assert mine.close() == "`tm view` shows this run"
    assert viewer.closed
    assert mine.close() is None


def test_one_that_did_not_come_is_told_of(viewer):
    mine = web.Web([], asked=True, port=0, keep=False)
    mine.start("/run/tb")
    viewer.gone = True
    assert "did not start" in known(mine.news())
    assert mine.close() is None


def test_at_the_end_only_one_that_is_kept_is_started(viewer):
    assert not web.Web([], asked=True, port=0, keep=False).start("/run/tb", at_the_end=True)
    kept = web.Web([], asked=None, port=0, keep=True)
    assert kept.start("/run/tb", at_the_end=True)
    assert kept.close() == "the viewer goes on: http://127.0.0.1:1/ (kill 77 ends it)"


def test_one_that_cannot_be_started_leaves_the_run_as_it_is(viewer, monkeypatch):
    """Such as when no port is free: tm then tells the command as it does away from a terminal."""

    def refused(*_words, **_keep):
        raise OSError("no port is free from 6006 on")

    monkeypatch.setattr(web, "serve", refused)
    mine = web.Web([], asked=True, port=0, keep=False)
    assert not mine.start("/run/tb")
    assert mine.news() is None
    assert mine.close() is None
