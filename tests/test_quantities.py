"""Numbers as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmeter_core.quantities import positive_count, positive_number


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("20B", 20 * 10**9),
        ("20G", 20 * 10**9),
        ("1.5T", 15 * 10**11),
        ("300m", 300 * 10**6),
        ("7k", 7000),
        ("2P", 2 * 10**15),
        ("3E", 3 * 10**18),
        ("10Z", 10**22),
        ("1e22", 10**22),
        ("1E22", 10**22),
        ("6.02e+23", 602 * 10**21),
        ("1_000_000", 10**6),
        ("0.1K", 100),
        (".5M", 500_000),
        ("2e3K", 2 * 10**6),
        (" 12 B ", 12 * 10**9),
    ],
)
def test_suffixes_and_exponents_are_exact(text, value):
    assert positive_count(text) == value


@pytest.mark.parametrize(
    "text", ["", "B", "20Q", "20BB", "1,000", "nan", "inf", "-3", "0x10", "1e", "3e5.5", "20 tokens", "٣"]
)
def test_what_is_no_number_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match=r"write 20B, 1\.5T, 300e6 or 1e22"):
        positive_number(text)


@pytest.mark.parametrize(
    ("text", "reason"), [("0", "greater than 0"), ("1e200", "out of range"), ("1e-3", "whole number")]
)
def test_what_cannot_be_a_budget_is_refused_with_the_reason(text, reason):
    with pytest.raises(ValueError, match=reason):
        positive_count(text)


@given(st.integers(1, 10**30))
def test_every_whole_number_survives(number):
    assert positive_count(str(number)) == number
