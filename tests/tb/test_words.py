"""Two runs are told apart in plain sentences, what matters most first."""

from __future__ import annotations

import pytest

from trainmeter_tb.tab.words import differences


def run(**medians: float) -> dict:
    return {name.replace("__", "/"): {"values": [value] * 3} for name, value in medians.items()}


def test_time_that_is_spent_otherwise():
    told = differences(run(time__data_wait=12.0, time__step=88.0), run(time__data_wait=23.0, time__step=77.0))
    assert told == ["spends 11 points more of its time waiting for data (23 % against 12 %)"]


def test_speed_in_tokens_and_where_there_are_none_in_samples():
    a, b = run(tokens_per_s=1000.0, samples_per_s=10.0), run(tokens_per_s=1200.0, samples_per_s=12.0)
    assert differences(a, b) == ["trains 20 % more tokens per second (1,200 against 1,000)"]
    assert differences(run(samples_per_s=10.0), run(samples_per_s=25.0)) == [
        "trains 2.5 times as many samples per second (25 against 10)"
    ]


def test_speed_per_gpu_only_where_their_number_differs():
    a = run(tokens_per_s=8000.0, tokens_per_s_per_gpu=1000.0)
    same = run(tokens_per_s=8800.0, tokens_per_s_per_gpu=1100.0)
    more = run(tokens_per_s=14400.0, tokens_per_s_per_gpu=900.0)
    assert len(differences(a, same)) == 1
    assert differences(a, more)[1] == "trains 10 % fewer tokens per second and GPU (900 against 1,000)"


def test_mfu_before_the_coarser_utilizations():
    a = run(mfu_pct=40.0, ladder__4_ofu=45.0, ladder__1_gpu_util=90.0)
    b = run(mfu_pct=35.5, ladder__4_ofu=40.0, ladder__1_gpu_util=80.0)
    assert differences(a, b) == ["has an MFU 4.5 points lower (35.5 % against 40.0 %)"]
    assert differences(run(ladder__4_ofu=45.0), run(ladder__4_ofu=50.0)) == [
        "has an OFU 5.0 points higher (50.0 % against 45.0 %)"
    ]


def test_power():
    assert differences(run(gpu__power_w=600.0), run(gpu__power_w=540.0)) == [
        "draws 10 % less power per GPU (540 W against 600 W)"
    ]


@pytest.mark.parametrize("b", [run(), run(time__data_wait=12.4, tokens_per_s=1010.0, mfu_pct=40.3)])
def test_noise_and_what_only_one_has_are_not_told(b):
    assert differences(run(time__data_wait=12.0, tokens_per_s=1000.0, mfu_pct=40.0, gpu__power_w=0.0), b) == []


def test_what_matters_most_comes_first():
    a = run(time__data_wait=5.0, tokens_per_s=1000.0, time__checkpoint=1.0)
    b = run(time__data_wait=65.0, tokens_per_s=400.0, time__checkpoint=3.0)
    assert [sentence.split()[1] for sentence in differences(a, b)] == ["60", "60", "2"]
