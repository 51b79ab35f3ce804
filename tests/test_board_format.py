"""The board: a reader sees a whole content or none, however the writer stands."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from trainmeter_core.board_format import BOARD_BYTES, HEAD, read_board, write_board

contents = st.dictionaries(
    st.text(max_size=9),
    st.one_of(st.none(), st.integers(), st.floats(allow_nan=False), st.text(max_size=9)),
    max_size=9,
)


@given(st.lists(contents, min_size=1, max_size=5))
def test_the_newest_content_is_read(written):
    board = bytearray(BOARD_BYTES)
    for content in written:
        assert write_board(board, content)
        assert read_board(board) == content


def test_an_empty_board_has_no_content():
    assert read_board(bytearray(BOARD_BYTES)) is None


def test_what_does_not_fit_leaves_the_board_as_it_was():
    board = bytearray(BOARD_BYTES)
    write_board(board, {"a": 1})
    assert not write_board(board, {"a": "x" * BOARD_BYTES})
    assert read_board(board) == {"a": 1}


def test_while_it_is_written_nothing_is_read():
    board = bytearray(BOARD_BYTES)
    write_board(board, {"a": 1})
    sequence, length = HEAD.unpack_from(board, 0)
    HEAD.pack_into(board, 0, sequence | 1, length)
    assert read_board(board) is None


def test_a_writer_that_died_while_writing_is_healed_by_the_next():
    board = bytearray(BOARD_BYTES)
    HEAD.pack_into(board, 0, 7, 0)
    assert write_board(board, {"a": 1})
    assert read_board(board) == {"a": 1}
    assert HEAD.unpack_from(board, 0)[0] % 2 == 0


def test_the_sequence_wraps_around():
    board = bytearray(BOARD_BYTES)
    HEAD.pack_into(board, 0, 0xFFFFFFFE, 0)
    for n in range(3):
        assert write_board(board, {"n": n})
        assert read_board(board) == {"n": n}


def test_a_damaged_board_has_no_content():
    board = bytearray(BOARD_BYTES)
    write_board(board, {"a": 1})
    for damage in (b"\xff\xff\xff", b"[1]    "):
        board[HEAD.size : HEAD.size + len(damage)] = damage
        assert read_board(board) is None
    HEAD.pack_into(board, 0, 2, 0xFFFFFFFF)
    assert read_board(board) is None


def test_a_reader_beside_a_writer_never_sees_half_a_content():
    board = bytearray(BOARD_BYTES)
    write_board(board, {"n": 0, "copy": 0, "fill": ""})
    stop = threading.Event()

    def write():
        n = 0
        while not stop.is_set():
            n += 1
            write_board(board, {"n": n, "copy": n, "fill": "x" * (n % 50)})

    writer = threading.Thread(target=write)
    writer.start()
    seen = 0
    try:
        for _ in range(3000):
            content = read_board(board)
            if content is not None:
                assert content["n"] == content["copy"]
                assert len(content["fill"]) == content["n"] % 50
                seen += 1
    finally:
        stop.set()
        writer.join()
    assert seen > 0
