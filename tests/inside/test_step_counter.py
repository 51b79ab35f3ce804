"""Which optimizer events are a step of the run: told as sequences of (optimizer, parameters, backward since)."""

from __future__ import annotations

import pytest

from trainmeter_core.inside.step_counter import TAKE_OVER, StepCounter

SMALL, BIG = (1, 10), (2, 1000)


def steps(counter: StepCounter, *events) -> list[int]:
    return [counter.stepped(optimizer, numel, backward) for (optimizer, numel), backward in events]


def test_every_event_of_a_single_optimizer_is_a_step():
    assert steps(StepCounter(), *[(BIG, True)] * 5) == [1] * 5


def test_optimizers_without_a_backward_between_them_are_one_step():
    cycle = [(SMALL, True), (BIG, False), ((3, 7), False)]
    assert steps(StepCounter(), *cycle * 4) == [1, 0, 0] * 4


def test_alternating_optimizers_are_one_step_a_cycle_whichever_goes_first():
    """A GAN: the discriminator steps first, the bigger generator leads from the second cycle on; no cycle counts twice."""
    assert sum(steps(StepCounter(), *[(SMALL, True), (BIG, True)] * 50)) == 50
    assert sum(steps(StepCounter(), *[(BIG, True), (SMALL, True)] * 50)) == 50


@pytest.mark.parametrize("n_critic", [2, 5, TAKE_OVER - 1])
def test_several_critic_steps_a_cycle_do_not_count(n_critic):
    cycle = [*[(SMALL, True)] * n_critic, (BIG, True)]
    told = steps(StepCounter(), *cycle * 20)
    # Until the bigger one was met, the critic is all there is.
    assert sum(told[:n_critic]) == n_critic
    assert told[n_critic:] == [0, *[*[0] * n_critic, 1] * 19]


def test_an_engines_dry_step_at_start_up_is_no_step():
    """Engines step once before any backward to allocate their state."""
    assert steps(StepCounter(), (BIG, False), *[(BIG, True)] * 3) == [0, 1, 1, 1]


def test_training_without_autograd_counts_from_the_second_event_on():
    """Evolution strategies: gradients are set by hand and no backward is ever seen."""
    assert steps(StepCounter(), *[(BIG, False)] * 4) == [0, 1, 1, 1]


def test_a_second_training_phase_takes_over_after_a_while():
    counter = StepCounter()
    assert sum(steps(counter, *[(BIG, True)] * 10)) == 10
    told = steps(counter, *[(SMALL, True)] * 40)
    assert told == [0] * (TAKE_OVER - 1) + [1] * (40 - TAKE_OVER + 1)
    assert counter.leads(SMALL[0])


def test_when_the_leader_is_freed_the_next_to_step_leads_at_once():
    counter = StepCounter()
    steps(counter, (BIG, True))
    counter.gone(BIG[0])
    assert steps(counter, (SMALL, True), (SMALL, True)) == [1, 1]


def test_freeing_another_optimizer_changes_nothing():
    counter = StepCounter()
    steps(counter, (BIG, True))
    counter.gone(SMALL[0])
    assert counter.leads(BIG[0])
    assert not counter.leads(SMALL[0])


def test_before_any_step_every_optimizer_may_lead():
    """So that a scaler's skipped first step counts as the run's."""
    assert StepCounter().leads(7)
