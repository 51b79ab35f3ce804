"""What is the same, what is the program's own noise, and what differs under tm."""

from __future__ import annotations

import pytest

from trainmeter_core.outside.selftest.judge import DIFFERS, NOISE, SAME, judge, judge_table
from trainmeter_core.outside.selftest.text import judge_text, without

TEXTS = {
    "the same": ([b"a\nb\n", b"a\nb\n"], b"a\nb\n", SAME),
    "another line": ([b"a\nb\n", b"a\nb\n"], b"a\nc\n", DIFFERS),
    "a line more": ([b"a\n", b"a\n"], b"a\nb\n", DIFFERS),
    "a line less": ([b"a\nb\n", b"a\nb\n"], b"a\n", DIFFERS),
    "no newline at the end": ([b"a\n", b"a\n"], b"a", DIFFERS),
    "a clock": ([b"loss 1 at 10:01\n", b"loss 1 at 10:02\n"], b"loss 1 at 10:03\n", NOISE),
    "a clock beside another loss": ([b"loss 1 at 10:01\n", b"loss 1 at 10:02\n"], b"loss 2 at 10:03\n", DIFFERS),
    "a progress bar": ([b"1/9 8 it/s\r9/9\n", b"1/9 8 it/s\r5/9\r9/9\n"], b"1/9 7 it/s\r9/9\n", NOISE),
    "a line among a progress bar's": ([b"1/9\r9/9\n", b"1/9\r5/9\r9/9\n"], b"1/9\rnew\n9/9\n", DIFFERS),
    "a line lost among a progress bar's": ([b"1/9\r9/9\nend\n", b"1/9\r5/9\r9/9\nend\n"], b"1/9\r9/9\n", DIFFERS),
    "bytes that are no text": ([b"\xff\x00\n", b"\xff\x00\n"], b"\xfe\x00\n", DIFFERS),
}


@pytest.mark.parametrize("case", TEXTS)
def test_a_stream_is_judged_line_by_line_and_word_by_word(case):
    bare, measured, state = TEXTS[case]
    assert judge_text("stdout", bare, measured).state == state


def test_only_the_lines_that_tm_noted_are_its_own():
    said = [b"tm: look\n", b"tm: end\n"]
    assert without(b"a\ntm: look\ntm: mine\nb\ntm: end\n", said) == b"a\ntm: mine\nb\n"
    assert without(b"half tm: look\nof a line\n", said) == b"half of a line\n"
    assert without(b"tm: end\ntm: look\n", said) == b"tm: end\n", "in the order in which they were said"
    assert without(b"tm: look\ntm: look\n", said[:1]) == b"tm: look\n", "each once"


def test_a_value_that_bare_runs_agree_about_and_tm_does_not_differs():
    assert judge("x", [1, 1], 1).state == SAME
    assert judge("x", [1, 1], 2) == ("x", DIFFERS, "1 bare, 2 under tm")
    assert judge("x", [1, 2], 3).state == NOISE


def test_a_table_differs_by_one_entry_however_much_noise_there_is():
    assert judge_table("t", [{"a": 1, "b": 2}] * 2, {"a": 1, "b": 2}, "entries") == ("t", SAME, "2 entries")
    assert judge_table("t", [{"a": 1, "b": 1}, {"a": 1, "b": 2}], {"a": 1, "b": 3}, "entries").state == NOISE
    assert judge_table("t", [{"a": 1, "b": 1}, {"a": 1, "b": 2}], {"a": 0, "b": 3}, "entries").state == DIFFERS
    assert judge_table("t", [{"a": 1}] * 2, {"a": 1, "extra": 1}, "entries").state == DIFFERS
    assert judge_table("t", [{"a": 1}] * 2, {}, "entries").detail == "a: 1 bare, nothing under tm"
    assert judge_table("t", [{"a": [1, 2]}] * 2, {"a": [1, 3]}, "entries").detail == "a: entry 2: 2 bare, 3 under tm"
