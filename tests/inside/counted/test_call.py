"""What a model was given comes back in the same form, with other tensors in it; and no tensor of the user's is kept."""

from __future__ import annotations

import enum
import gc
import weakref
from collections import UserDict
from typing import Any, NamedTuple

import pytest

torch = pytest.importorskip("torch")

from trainmeter_core.inside.counted.call import NotSeen, TensorFacts, facts_of, made_of  # noqa: E402


class Mode(enum.Enum):
    TRAIN = 1


class Batch(NamedTuple):
    x: Any
    more: list[int]


class Output(dict):
    """Takes its content by keywords alone, as outputs of models do."""

    def __init__(self, **content):
        super().__init__(content)


def empty(facts):
    return torch.empty(facts.shape, dtype=facts.dtype, requires_grad=facts.requires_grad)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        3,
        0.5,
        "text",
        b"bytes",
        range(3),
        slice(1),
        torch.Size([2]),
        torch.bfloat16,
        torch.device("cpu"),
        Mode.TRAIN,
        (),
        [],
        {},
    ],
)
def test_what_holds_no_tensor_comes_back_as_it_is(value):
    assert made_of(facts_of(value), empty) == value


def test_a_tensor_comes_back_by_its_facts():
    given = torch.zeros(2, 3, dtype=torch.float64, requires_grad=True)
    assert facts_of(given) == TensorFacts((2, 3), torch.float64, given.device, True)
    made = made_of(facts_of(given), empty)
    assert (made.shape, made.dtype, made.requires_grad) == (given.shape, given.dtype, True)


@pytest.mark.parametrize("kind", [dict, UserDict, Output])
def test_a_mapping_comes_back_as_one_of_its_kind(kind):
    content = {"input_ids": torch.zeros(2, 8, dtype=torch.long), "more": [(torch.zeros(1), 7)]}
    made = made_of(facts_of(kind(**content)), empty)
    assert type(made) is kind
    assert list(made.keys()) == list(content)
    assert made["input_ids"].shape == (2, 8)
    [(inner, seven)] = made["more"]
    assert (inner.shape, seven) == ((1,), 7)


def test_a_named_tuple_comes_back_with_its_names():
    made = made_of(facts_of(Batch(torch.zeros(3), [1])), empty)
    assert isinstance(made, Batch)
    assert (made.x.shape, made.more) == ((3,), [1])


def test_no_tensor_is_kept():
    given = torch.zeros(4)
    alive = weakref.ref(given)
    facts = facts_of({"x": [given]})
    del given
    gc.collect()
    assert alive() is None
    assert made_of(facts, empty)["x"][0].shape == (4,)


def test_an_object_that_may_hold_a_tensor_is_named_and_not_kept():
    class Holder:
        def __init__(self):
            self.x = torch.zeros(1)

    with pytest.raises(NotSeen, match="Holder"):
        facts_of({"batch": Holder()})


@pytest.mark.parametrize("given", [[[[[[0]]]]], {"x": {0, 1}}, [0] * 5000], ids=["deep", "set", "long"])
def test_what_is_not_searched_is_refused_rather_than_kept(given):
    with pytest.raises(NotSeen):
        facts_of(given)
