"""What a model call's arguments say of its batch: (sequences, length, target length)."""

from __future__ import annotations

import pytest
import torch

from tests.known import known
from trainmeter_core.inside import batch_shape as module
from trainmeter_core.inside.batch_shape import batch_shape


def ids(*dims, dtype=torch.int64):
    return torch.zeros(dims, dtype=dtype)


def floats(*dims):
    return torch.zeros(dims)


class Encoding(dict):
    """What a tokenizer gives: a mapping that is also attributes."""


CASES = {
    "ids": ((ids(4, 16),), {}, (4, 16, 0)),
    "ids and targets": ((ids(4, 16), ids(4, 16)), {}, (4, 16, 0)),
    "ids of a small dtype": ((ids(4, 16, dtype=torch.uint8),), {}, (4, 16, 0)),
    "ids after a float": ((floats(4, 3), ids(4, 16)), {}, (4, 16, 0)),
    "pictures and captions": ((floats(4, 3, 8, 8), ids(4, 16)), {}, (4, 16, 0)),
    "a packed row": ((ids(4096),), {}, (1, 4096, 0)),
    "a packed row and its targets": ((ids(4096), ids(4096), 7), {}, (1, 4096, 0)),
    "a packed row and its boundaries": ((ids(4096), ids(9)), {}, (1, 4096, 0)),
    "keyword ids": ((), {"input_ids": ids(4, 16), "labels": ids(4, 16)}, (4, 16, 0)),
    "keyword ids after a mask": ((), {"attention_mask": ids(4, 20), "input_ids": ids(4, 16)}, (4, 16, 0)),
    "encoder and decoder": ((), {"input_ids": ids(4, 16), "decoder_input_ids": ids(4, 9)}, (4, 16, 9)),
    "labels of another length": ((), {"input_ids": ids(4, 16), "labels": ids(4, 9)}, (4, 16, 9)),
    "labels of classes": ((), {"input_ids": ids(4, 16), "labels": ids(4)}, (4, 16, 0)),
    "padding-free rows": ((), {"input_ids": ids(1, 900), "position_ids": ids(1, 900)}, (1, 900, 0)),
    "embeddings": ((), {"inputs_embeds": floats(4, 16, 32)}, (4, 16, 0)),
    "keyword pictures": ((), {"pixel_values": floats(6, 3, 8, 8), "labels": ids(6)}, (6, 0, 0)),
    "pictures": ((floats(6, 3, 8, 8),), {}, (6, 0, 0)),
    "pictures and labels": ((floats(6, 3, 8, 8), ids(6)), {}, (6, 0, 0)),
    "noise, time steps and classes": ((floats(6, 3, 8, 8), ids(6), ids(6)), {}, (6, 0, 0)),
    "labels before pictures": (({"label": ids(6), "image": floats(6, 3, 8, 8)},), {}, (6, 0, 0)),
    "features": ((floats(32, 5),), {}, (32, 0, 0)),
    "a dict": (({"input_ids": ids(4, 16), "attention_mask": ids(4, 16)},), {}, (4, 16, 0)),
    "an encoding": ((Encoding(input_ids=ids(4, 16)),), {}, (4, 16, 0)),
    "a list": (([ids(4, 16), ids(4)],), {}, (4, 16, 0)),
    "a tuple in a dict": (({"x": (floats(4, 3), ids(4, 7))},), {}, (4, 7, 0)),
    "a dict in a list": (([{"tokens": ids(4, 16)}],), {}, (4, 16, 0)),
    "a list of pictures of different sizes": (([floats(3, 8, 8), floats(3, 9, 9)],), {}, (3, 0, 0)),
    "recurrent state, (T, B)": ((ids(35, 20), floats(2, 20, 8)), {}, (20, 35, 0)),
    "two recurrent states, (T, B)": ((ids(35, 20), (floats(2, 20, 8), floats(2, 20, 8))), {}, (20, 35, 0)),
    "recurrent state, (B, T)": ((ids(20, 35), (floats(2, 20, 8), floats(2, 20, 8))), {}, (20, 35, 0)),
    "features of as many regions as tokens": ((ids(4, 16), floats(4, 16, 8)), {}, (4, 16, 0)),
    "nothing": ((), {}, None),
    "words": (("a", 3, None, 2.5), {"mode": "train"}, None),
    "a number": ((torch.tensor(3),), {}, None),
    "an object with strange attributes": ((type("Odd", (), {"shape": 3})(),), {}, None),
    "too deep": (([[[[ids(4, 16)]]]],), {}, None),
}


@pytest.fixture(autouse=True, params=["first call", "later calls"])
def remembered(request):
    """The verdict on a dtype is remembered; the first call must say what the later ones do."""
    module._is_integer.clear()
    if request.param == "later calls":
        batch_shape((ids(1, 1), ids(1, 1, dtype=torch.uint8), floats(1)), {})
        batch_shape((floats(1),), {})


@pytest.mark.parametrize(("args", "kwargs", "expected"), CASES.values(), ids=list(CASES))
def test_the_batch_of_a_call(args, kwargs, expected):
    assert batch_shape(args, kwargs) == expected


def test_numbers_are_plain_integers():
    assert [type(n) for n in known(batch_shape((), {"input_ids": ids(4, 16)}))] == [int, int, int]


def test_data_are_never_read():
    """On the meta device a tensor has a shape and no data."""
    assert batch_shape((torch.zeros(4, 16, dtype=torch.int64, device="meta"),), {}) == (4, 16, 0)


def test_a_long_list_is_not_searched_to_its_end():
    assert batch_shape(([None] * 1000 + [ids(4, 16)],), {}) is None


@pytest.mark.parametrize(
    ("args", "kwargs", "expected"),
    [
        ((ids(9, 5),), {}, (5, 9, 0)),
        ((ids(9, 5), ids(9, 5)), {}, (5, 9, 0)),
        ((ids(9, 5), floats(2, 5, 8)), {}, (5, 9, 0)),
        ((), {"input_ids": ids(5, 9)}, (5, 9, 0)),
        ((floats(6, 3, 8, 8),), {}, (6, 0, 0)),
        ((), {}, None),
    ],
    ids=["ids", "ids and targets", "state that tells it already", "by name", "pictures", "nothing"],
)
def test_a_model_that_wants_time_first_is_given_rows_of_one_moment(args, kwargs, expected):
    assert module.time_first_shape(args, kwargs) == expected
