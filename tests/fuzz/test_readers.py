"""No input breaks a reader: the kept corpus, and some hundred damaged files of each kind, new ones at every change of it."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.fuzz_readers import READERS, mutated

CORPUS = Path(__file__).parents[1] / "corpus"
SLOWEST_S = 2.0


def corpus_of(name: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((CORPUS / name.replace(" ", "-")).iterdir())]


def read(name: str, data: bytes) -> None:
    reader = READERS[name]
    began = time.process_time()
    try:
        reader.read(data)
    except reader.allowed:
        pass
    assert time.process_time() - began < SLOWEST_S, f"{len(data)} bytes take too long"


@pytest.mark.parametrize("name", READERS)
def test_what_once_broke_a_reader_and_what_it_began_with_are_read(name):
    corpus = corpus_of(name)
    assert corpus
    for data in corpus:
        read(name, data)


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=60, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32), at=st.integers(0, 63), junk=st.binary(max_size=200))
def test_a_damaged_file_is_read_or_refused(name, seed, at, junk):
    corpus = corpus_of(name)
    chance = random.Random(seed)
    read(name, mutated(corpus[at % len(corpus)], chance, junk))
    read(name, junk)
