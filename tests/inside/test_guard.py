"""The border with the user's program: our Exceptions stop there and are counted, everything else passes."""

from __future__ import annotations

import pytest

from trainmeter_core.inside import guard


@pytest.fixture
def place(monkeypatch):
    monkeypatch.setattr(guard, "_sites", {})
    monkeypatch.setattr(guard, "STRICT", False)
    return guard.site("here")


def fail(place, error=None):
    with place:
        raise error or ValueError("ours")


def test_an_exception_is_swallowed_and_counted_with_its_first_text(place):
    fail(place)
    fail(place, KeyError("later"))
    assert place.count == 2
    assert place.first.startswith("ValueError: ours at test_guard.py:")
    assert guard.failures() == {"here": place}


def test_a_site_rests_after_a_few_failures(place):
    for _ in range(guard.PATIENCE - 1):
        fail(place)
    assert place.on
    fail(place)
    assert not place.on


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_ends_a_program_passes(place, kind):
    with pytest.raises(kind):
        fail(place, kind())
    assert place.count == 0


def test_without_a_failure_nothing_is_noted(place):
    with place:
        pass
    assert guard.failures() == {}


def test_the_same_name_is_the_same_site(place):
    assert guard.site("here") is place
    guard.note_failure("here", ValueError("x"))
    assert place.count == 1


def test_under_test_failures_are_raised(place, monkeypatch):
    monkeypatch.setattr(guard, "STRICT", True)
    with pytest.raises(ValueError, match="ours"):
        fail(place)
    assert place.count == 1


def test_a_text_is_cut(place):
    fail(place, ValueError("x" * 10000))
    assert len(place.first) < 400


def test_the_frame_that_caught_the_users_exception_is_not_in_its_traceback():
    def theirs():
        raise LookupError("theirs")

    def tap():
        try:
            theirs()
        except BaseException as error:
            guard.unseen(error)
            raise

    with pytest.raises(LookupError) as caught:
        tap()
    assert [entry.name for entry in caught.traceback][-1] == "theirs"
    import sys

    assert ("tap" in [entry.name for entry in caught.traceback]) is (sys.version_info < (3, 11))
