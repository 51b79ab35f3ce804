"""From counts and durations to the published row: exact counts, rates over whole steps, shares that add up."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.known import known
from trainmeter_core.flops import CONVENTIONS, training_flops
from trainmeter_core.meter import Budget, Meter, Totals, Window, parse_budget, time_shares
from trainmeter_core.model_shape import Batch
from trainmeter_core.readings import Absent
from trainmeter_core.series import TIME_KINDS, series_of
from trainmeter_core.shape_from import shape_of
from trainmeter_core.weight_traffic import Traffic


@pytest.fixture(scope="module")
def shape():
    """A tiny GPT as the agent describes it."""
    from tests.e2e.programs.tiny import GPT as Model
    from tests.e2e.programs.tiny import config
    from trainmeter_core.inside.describe import describe

    found, _ = known(shape_of(describe(Model(config()))))
    return found


BATCH = (4, 16, 0)
ZERO = dict.fromkeys(TIME_KINDS, 0.0)


def window(steps=10, seconds=5.0, batches=None, **kinds):
    return Window(steps, seconds, {BATCH: 10} if batches is None else batches, {**ZERO, "step": seconds, **kinds})


def totals(steps=20, tokens=1280, samples=80, batches=None, skipped=0):
    return Totals(steps, skipped, tokens, samples, {BATCH: 20} if batches is None else batches)


def test_counts_are_exact_integers_scaled_to_the_whole_run(shape):
    row = Meter(shape).row(window(), totals(), (7, 3))
    assert row["trainmeter/tokens"] == 1280 * 7 // 3
    assert row["trainmeter/step"] == 20
    assert Meter(shape).row(window(), totals(), (8, 1))["trainmeter/tokens"] == 8 * 1280


def test_flops_are_the_conventions_own_count(shape):
    row = Meter(shape, headline="hf").row(window(), totals(), (1, 1))
    assert row["trainmeter/flops"] == 20 * known(training_flops("hf", shape, Batch(4, 16)))


def test_rates_are_over_the_window(shape):
    row = Meter(shape, ranks=2).row(window(), totals(), (2, 1))
    assert row["trainmeter/step_time_s"] == 0.5
    assert row["trainmeter/tokens_per_s"] == 2 * 640 / 5
    assert row["trainmeter/tokens_per_s_per_gpu"] == 640 / 5
    assert row["trainmeter/samples_per_s"] == 2 * 40 / 5


def test_mfu_is_flops_over_devices_seconds_and_peak(shape):
    row = Meter(shape, ranks=2, peak_tflops=0.5).row(window(), totals(), (2, 1))
    for name in CONVENTIONS:
        flops = training_flops(name, shape, Batch(4, 16))
        if not isinstance(flops, Absent):
            assert row["trainmeter/mfu/" + name] == pytest.approx(100 * 10 * flops * 2 / 5 / 2 / 0.5e12)
    assert row["trainmeter/mfu_pct"] == row["trainmeter/ladder/6_mfu"] == row["trainmeter/mfu/torchtitan"]
    assert row["trainmeter/tflops"] == pytest.approx(2 * row["trainmeter/tflops_per_gpu"])


def test_model_intensity_is_the_headlines_flops_over_the_fewest_bytes(shape):
    """Ten micro-batches of 1000 bytes and five steps of 300 on each of two ranks; no peak is needed."""
    meter = Meter(shape, ranks=8)
    meter.traffic = Traffic(1000, 300)
    row = meter.row(window(steps=5)._replace(ranks=2), totals(), (8, 2))
    flops = 10 * known(training_flops("torchtitan", shape, Batch(4, 16)))
    assert row["trainmeter/intensity/model"] == flops / (10 * 1000 + 5 * 2 * 300)


def test_without_the_bytes_of_the_weights_there_is_no_model_intensity(shape):
    assert "trainmeter/intensity/model" not in Meter(shape).row(window(), totals(), (1, 1))
    unknown = Meter(Absent("the model was not seen"))
    unknown.traffic = Traffic(1000, 300)
    assert "trainmeter/intensity/model" not in unknown.row(window(), totals(), (1, 1))


def test_without_a_peak_there_is_no_mfu(shape):
    row = Meter(shape).row(window(), totals(), (1, 1))
    assert not [name for name in row if "mfu" in name]
    assert row["trainmeter/tflops"] > 0


def test_an_mfu_above_100_is_not_clamped(shape):
    assert Meter(shape, peak_tflops=1e-12).row(window(), totals(), (1, 1))["trainmeter/mfu_pct"] > 100


@pytest.mark.parametrize(
    "batches", [{(8, 0, 0): 10}, {(0, 16, 0): 1}, {BATCH: 3, (8, 0, 0): 1}], ids=["images", "empty", "mixed"]
)
def test_batches_without_a_length_have_no_flops_and_no_error(shape, batches):
    row = Meter(shape, peak_tflops=1.0).row(window(batches=batches), totals(batches=batches), (1, 1))
    assert row.get("trainmeter/flops", 0) == 0
    assert not row.get("trainmeter/mfu_pct")
    assert row["trainmeter/step_time_s"] == 0.5


def test_an_unknown_model_still_has_steps_tokens_and_times():
    row = Meter(Absent("the model was not seen")).row(window(), totals(), (1, 1))
    assert row["trainmeter/tokens_per_s"] == 128
    assert "trainmeter/flops" not in row


def test_images_have_samples_and_no_tokens(shape):
    row = Meter(shape).row(window(batches={(8, 0, 0): 10}), totals(tokens=0, batches={}), (1, 1))
    assert "trainmeter/tokens" not in row
    assert "trainmeter/tokens_per_s" not in row
    assert row["trainmeter/samples_per_s"] == 16


def test_a_window_without_a_whole_step_has_no_rates(shape):
    row = Meter(shape, peak_tflops=1.0).row(window(steps=0, seconds=0.0), totals(), (1, 1))
    assert not [name for name in row if "per_s" in name or "mfu" in name]


def test_skipped_steps_are_named_only_where_there_are_some(shape):
    assert "trainmeter/steps_skipped" not in Meter(shape).row(window(), totals(), (1, 1))
    assert Meter(shape).row(window(), totals(skipped=3), (1, 1))["trainmeter/steps_skipped"] == 3


@pytest.mark.parametrize(
    ("budget", "progress"),
    [(Budget("tokens", 12800), 10.0), (Budget("steps", 80), 25.0), (Budget("tokens", 640), 100.0)],
)
def test_a_budget_gives_progress_time_left_and_flops_required(shape, budget, progress):
    row = Meter(shape, budget=budget).row(window(), totals(), (1, 1))
    share = {"tokens": 1280, "steps": 20}[budget.kind] / budget.amount
    assert row["trainmeter/progress_pct"] == progress
    assert row["trainmeter/eta_s"] == pytest.approx(max(0.0, 20 / share - 20) * 0.5)
    assert row["trainmeter/flops_required"] == pytest.approx(row["trainmeter/flops"] / share)


def test_a_budget_whose_quantity_is_not_seen_gives_nothing(shape):
    row = Meter(Absent("x"), budget=Budget("flops", 1e20)).row(window(), totals(), (1, 1))
    assert "trainmeter/progress_pct" not in row


def test_steps_that_a_restart_threw_away_were_spent_and_are_no_progress(shape):
    whole = Meter(shape, budget=Budget("steps", 40)).row(window(), totals(), (1, 1))
    row = Meter(shape, budget=Budget("steps", 40)).row(window(), totals()._replace(lost_steps=5), (1, 1))
    assert row["trainmeter/progress_pct"] == 100 * 15 / 40
    assert row["trainmeter/eta_s"] == pytest.approx(25 * 0.5)
    assert row["trainmeter/flops"] == whole["trainmeter/flops"]
    assert row["trainmeter/flops_required"] == pytest.approx(whole["trainmeter/flops_required"])
    by_tokens = Meter(shape, budget=Budget("tokens", 2560)).row(window(), totals()._replace(lost_steps=5), (1, 1))
    assert by_tokens["trainmeter/progress_pct"] == pytest.approx(37.5)


def test_the_first_budget_given_counts():
    assert parse_budget({"budget_steps": 10, "budget_tokens": "2000"}) == Budget("tokens", 2000.0)
    assert parse_budget({"budget_tokens": None}) is None


def test_every_name_is_in_the_registry(shape):
    row = Meter(shape, peak_tflops=1.0, budget=Budget("steps", 50)).row(window(), totals(skipped=1), (1, 1))
    for name in row:
        series_of(name)


@given(st.dictionaries(st.sampled_from(TIME_KINDS), st.floats(0, 1e9), min_size=1))
def test_time_shares_add_up_to_100_or_there_are_none(seconds):
    shares = time_shares(seconds)
    assert not shares if sum(seconds.values()) <= 0 else math.isclose(sum(shares.values()), 100, abs_tol=0.1)


@given(st.integers(0, 10**15), st.integers(1, 4096), st.integers(1, 4096))
def test_equal_ranks_scale_exactly(tokens, ranks, seen):
    row = Meter(Absent("x")).row(window(), totals(tokens=tokens * seen), (ranks, seen))
    assert row.get("trainmeter/tokens", 0) == tokens * ranks


def test_nothing_that_is_not_finite_is_published(shape):
    row = Meter(shape, peak_tflops=1e-320).row(window(seconds=1e-300), totals(), (1, 1))
    assert all(math.isfinite(value) for value in row.values())
