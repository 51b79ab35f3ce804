"""An event file is read whatever happened to it, and what was lost is counted."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

from trainmeter_tb import records
from trainmeter_tb.records import RecordReader, framed, last_record_with

CONTENTS = st.lists(st.binary(max_size=300), min_size=1, max_size=20)


def read(data: bytes) -> tuple[list[bytes], RecordReader]:
    reader = RecordReader(io.BytesIO(data))
    return list(reader), reader


@given(CONTENTS)
def test_what_was_framed_is_read_back(contents):
    found, reader = read(b"".join(map(framed, contents)))
    assert found == contents
    assert (reader.corrupt, reader.torn, reader.skipped_bytes) == (0, False, 0)


@given(st.binary(max_size=200))
def test_the_checksum_is_tensorflows_with_and_without_the_fast_library(data):
    assert records.masked(data) == masked_crc32c(data)
    assert records._plain_crc32c()(data) == records.crc32c(data)


def test_the_checksum_is_that_of_rfc_3720():
    """RFC 3720, B.4: 32 bytes of zeros give AA 36 91 8A."""
    assert records.crc32c(bytes(32)) == 0x8A9136AA


@given(CONTENTS, st.integers(0, 10_000))
def test_a_file_cut_anywhere_gives_all_whole_records_and_can_be_read_on(contents, cut):
    data = b"".join(map(framed, contents))
    cut %= len(data) + 1
    found, reader = read(data[:cut])
    assert found == contents[: len(found)]
    assert reader.corrupt == 0
    file = io.BytesIO(data)
    file.seek(reader.read_to)
    assert found + list(RecordReader(file)) == contents


@given(CONTENTS, st.integers(0, 100_000), st.integers(1, 255))
def test_a_changed_byte_costs_at_most_the_record_that_it_is_in(contents, place, flip):
    data = bytearray(b"".join(map(framed, contents)))
    place %= len(data)
    data[place] ^= flip
    found, reader = read(bytes(data))
    assert reader.corrupt == 1
    assert len(found) >= len(contents) - 1
    rest = iter(contents)
    assert all(content in rest for content in found), "what is left is in order, and nothing is invented"


@given(st.lists(st.binary(max_size=40), max_size=5), st.binary(max_size=3000))
def test_rubbish_is_never_read_as_a_record_and_never_ends_the_reading(contents, rubbish):
    whole = b"".join(map(framed, contents))
    found, _reader = read(rubbish + whole)
    assert found[-len(contents) :] == contents if contents else True


def test_records_that_straddle_the_chunks_are_whole(monkeypatch):
    monkeypatch.setattr(records, "_CHUNK", 7)
    contents = [bytes([n]) * n for n in range(40)]
    data = b"".join(map(framed, contents))
    assert read(data)[0] == contents
    damaged = data[:50] + b"\xff" * 30 + data[80:]
    found, reader = read(damaged)
    assert reader.corrupt >= 1
    assert found[-20:] == contents[-20:]


@pytest.mark.parametrize("limit", [1 << 20, 150])
def test_the_last_record_with_some_bytes_is_found_within_the_limit(tmp_path, limit):
    path = tmp_path / "file"
    contents = [b"a", b"needle 1", b"b" * 100, b"needle 2", b"c"]
    path.write_bytes(b"".join(map(framed, contents)))
    expected = b"needle 2" if limit > 150 else b"needle 1"
    assert last_record_with(str(path), b"needle", limit) == expected
    assert last_record_with(str(path), b"hay", limit) is None


def test_neither_an_empty_nor_a_torn_file_disturbs_the_search(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"")
    assert last_record_with(str(path), b"x", 100) is None
    path.write_bytes(framed(b"needle")[:-2])
    assert last_record_with(str(path), b"needle", 100) is None
