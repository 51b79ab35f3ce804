"""Where a row of ours stands among the steps that the user logs with."""

from __future__ import annotations

from trainmeter_core.step_axis import Axis


def logged(axis, tag, *steps):
    return [axis.saw(tag, step) for step in steps]


def test_a_row_stands_at_the_users_step():
    axis = Axis()
    assert logged(axis, "loss", 10, 20) == [(False, True), (True, True)]
    assert axis.place(20, optimizer_step=20) == 20


def test_no_row_stands_at_the_smaller_steps_of_a_second_axis():
    """Epochs beside batches: the row would jump back."""
    axis = Axis()
    axis.saw("loss", 500)
    axis.place(500, 500)
    assert axis.saw("epoch accuracy", 1) == (False, False)
    assert axis.latest == 500


def test_a_tag_that_goes_back_starts_the_axis_anew():
    axis = Axis()
    axis.saw("loss", 500)
    axis.place(500, 500)
    assert axis.saw("loss", 400) == (False, True)


def test_after_a_resume_smaller_steps_are_the_axis():
    axis = Axis()
    axis.saw("loss", 500)
    axis.place(500, 500)
    axis.resumed()
    assert axis.saw("another", 400) == (False, True)


def test_where_the_user_gives_no_steps_a_row_has_the_optimizers():
    axis = Axis()
    fits = [fits for _, fits in logged(axis, "loss", 0, 0, 0)]
    assert fits == [True, True, True]
    assert axis.place(0, optimizer_step=3) == 3


def test_a_single_step_zero_is_a_step():
    axis = Axis()
    axis.saw("loss", 0)
    assert axis.place(0, optimizer_step=1) == 0
    assert axis.saw("accuracy", 0) == (False, False), "one row at step 0 is enough, as long as more steps may come"


def test_a_step_after_zeros_ends_the_guess_that_there_are_none():
    axis = Axis()
    logged(axis, "loss", 0, 0, 0, 5)
    axis.saw("accuracy", 0)
    assert axis.place(0, optimizer_step=9) == 0


class TestEnd:
    """The closing row."""

    def test_it_stands_at_the_users_last_step(self):
        axis = Axis()
        axis.saw("loss", 7)
        axis.place(7, 70)
        assert axis.end(90) == 7

    def test_where_they_count_optimizer_steps_it_stands_at_the_last_of_those(self):
        """Two rows stood equally far from the optimizer's step."""
        axis = Axis()
        for step in (99, 199):
            axis.saw("loss", step)
            axis.place(step, step + 1)
        assert axis.end(250) == 249

    def test_it_never_stands_before_what_the_user_logged(self):
        axis = Axis()
        for step in (99, 199):
            axis.saw("loss", step)
            axis.place(step, step + 1)
        axis.saw("loss", 300)
        assert axis.end(250) == 300

    def test_with_nothing_logged_it_stands_at_the_optimizers_step(self):
        assert Axis().end(12) == 12
        assert Axis().end(None) == 0


def test_many_tags_take_no_more_memory():
    axis = Axis()
    for number in range(5000):
        axis.saw(f"tag {number}", 0)
    assert (len(axis._last), len(axis._at_zero)) == (2048, 2048)
