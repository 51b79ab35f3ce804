"""What the run had when a process began: known at once where nothing came before, else as soon as `tm` has told it."""

from __future__ import annotations

import json
import os
import shutil
from types import SimpleNamespace
from typing import Any

import pytest

from trainmeter_core.inside import sums_before
from trainmeter_core.inside.sums_before import SumsBefore
from trainmeter_core.resumption import NOT_TOLD, NOTHING, Before

TOLD: dict[str, Any] = {"sums": {"step": 6, "tokens": 384, "flops": None}, "lost": 2}
KNOWN = Before(TOLD["sums"], 2)
GONE = 4194305  # beyond the largest number that a process can have


@pytest.fixture
def clock(monkeypatch):
    """Passes as the test says, and while somebody waits."""
    hand = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(sums_before, "monotonic", lambda: hand.now)
    monkeypatch.setattr(sums_before, "sleep", lambda seconds: setattr(hand, "now", hand.now + seconds))
    return hand


@pytest.fixture
def before(agent, clock):
    return SumsBefore(agent)


def ring(spool, rank, pid):
    (spool / f"r{rank}-{pid}.ring").touch()


def tell(spool, name, content=TOLD):
    (spool / name).write_text(json.dumps(content))


def test_a_first_process_has_nothing_before_it(before, agent, spool):
    ring(spool, 0, agent.pid)
    assert before.known() == NOTHING


def test_ranks_at_work_at_the_same_time_do_not_come_before(before, agent, spool):
    ring(spool, 0, agent.pid)
    ring(spool, 1, os.getppid())
    assert before.known() == NOTHING


@pytest.mark.parametrize(("rank", "pid"), [(0, os.getppid()), (1, GONE)])
def test_one_beside_another_of_its_rank_or_after_one_that_ended_waits_for_tm(before, agent, spool, clock, rank, pid):
    ring(spool, rank, pid)
    assert before.known() is None
    tell(spool, f"before-{agent.pid}")
    clock.now += 0.1
    assert before.known() == KNOWN


def test_where_tm_never_tells_all_of_it_is_unknown_after_five_seconds(before, spool, clock):
    ring(spool, 0, GONE)
    assert before.known() is None
    clock.now += 4.9
    assert before.known() is None
    clock.now += 0.2
    assert before.known() == NOT_TOLD


def test_it_is_taken_when_tm_tells_it_late(before, agent, spool, clock):
    ring(spool, 0, GONE)
    before.known()
    clock.now += 10
    assert before.known() == NOT_TOLD
    tell(spool, f"before-{agent.pid}")
    clock.now += 0.1
    assert before.known() == KNOWN


def test_the_last_row_waits_two_seconds_at_the_most(before, spool, clock):
    ring(spool, 0, GONE)
    assert before.known(final=True) == NOT_TOLD
    assert clock.now == pytest.approx(1002, abs=0.1)


def test_the_first_process_of_a_resumed_run_has_what_was_known_at_its_start_where_it_ends_before_tm_tells(
    before, agent, spool
):
    tell(spool, "before")
    assert before.known() is None
    assert before.known(final=True) == KNOWN


def test_for_a_later_process_of_a_resumed_run_that_is_not_all(before, spool):
    tell(spool, "before")
    ring(spool, 0, GONE)
    assert before.known(final=True) == NOT_TOLD


@pytest.mark.parametrize("text", ["", "[]", '{"sums": 1, "lost": 0}', '{"sums": {"step": "6"}, "lost": 0}'])
def test_what_is_no_word_of_tms_is_not_believed(before, agent, spool, text):
    (spool / f"before-{agent.pid}").write_text(text)
    assert before.known() is None


def test_without_a_spool_nothing_is_known(before, spool):
    shutil.rmtree(spool)
    assert before.known(final=True) == NOT_TOLD
