"""Time left and its uncertainty, from windows of whole steps."""

from __future__ import annotations

import random

import pytest

from trainmeter_core.pace import Pace


def pace_of(*windows):
    pace = Pace()
    for steps, seconds in windows:
        pace.add(steps, seconds)
    return pace


def test_before_the_first_window_there_is_no_time_left():
    assert Pace().left(10) is None


def test_steady_windows_leave_no_uncertainty():
    assert pace_of(*[(4, 2.0)] * 8).left(100) == (50.0, 0.0)


def test_too_few_windows_say_nothing_of_the_uncertainty():
    assert pace_of((1, 1.0), (1, 2.0)).left(4) == (6.0, None)


def test_nothing_left_is_sure():
    assert pace_of((1, 1.0), (1, 2.0), (1, 1.0), (1, 2.0), (1, 1.0)).left(0) == (0.0, 0.0)


def test_windows_of_different_lengths_count_by_their_steps():
    assert pace_of((1, 1.0), (3, 9.0)).left(2).seconds == pytest.approx(5.0)


def test_two_deviations_hold_the_true_time_in_about_95_of_100_runs():
    """Steps of random length: the run's true rest lies within the band as often as two deviations say."""
    chance = random.Random(1)
    inside = 0
    for _ in range(400):
        pace = pace_of(*((n, sum(chance.gauss(1, 0.2) for _ in range(n))) for n in chance.choices(range(1, 6), k=40)))
        left = pace.left(200)
        inside += abs(sum(chance.gauss(1, 0.2) for _ in range(200)) - left.seconds) <= left.plus_minus_s
    assert 0.92 <= inside / 400 <= 0.98
