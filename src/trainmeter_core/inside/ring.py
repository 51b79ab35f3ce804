"""The agent's end of the step ring: one mmapped file per training process, one 64-byte record per optimizer step."""

from __future__ import annotations

import mmap
import os
import struct

from .. import ring_format as layout

MYPY = False
if MYPY:
    from typing import Any

_U32 = 0xFFFFFFFF

_pack_record = layout.RECORD.pack_into
_pack_totals = layout.TOTALS.pack_into


class Ring:
    """Writes records; survives SIGKILL of the trainer, because the kernel owns the pages.

    Raises OSError when the file cannot be made or its space cannot be reserved; no write after that can fail.
    """

    __slots__ = ("_map", "path", "records")

    def __init__(self, path: str, identity: layout.Identity) -> None:
        taken = _take_standard_descriptors()
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                _reserve(descriptor, layout.RING_BYTES)
                self._map = mmap.mmap(descriptor, layout.RING_BYTES)
            except BaseException:
                os.unlink(path)
                raise
            finally:
                os.close(descriptor)
        finally:
            for each in taken:
                os.close(each)
        self.path = path
        self.records = 0
        layout.IDENTITY.pack_into(
            self._map, 0, layout.MAGIC, layout.RECORD_SIZE, layout.CAPACITY, identity.pid, identity.rank,
            identity.local_rank, identity.world_size, identity.wall_clock, identity.monotonic, identity.process_start,
        )  # fmt: skip

    @property
    def page(self) -> Any:
        """The header as doubles, of which that at PHASE says what the process does now."""
        return memoryview(self._map)[: layout.HEADER_SIZE].cast("d")

    def step(  # noqa: PLR0917 - the fields of the record
        self, kind: int, flags: int, micro_batches: int, step: int, end: float, tokens: int, samples: int,
        seq_len: int, target_len: int, seconds: tuple[float, float, float, float, float, float],
        totals: tuple[int, int, int, int, int],
    ) -> None:  # fmt: skip
        """Append one step, then publish the records written so far with the sums that belong to them.

        The check word goes last, so that a half-written record is never taken for a whole one.
        ``totals``: steps, skipped steps, tokens, samples and failures since the start of the process.
        """
        position = self.records
        offset = layout.HEADER_SIZE + position % layout.CAPACITY * layout.RECORD_SIZE
        check = (position ^ layout.CHECK) & _U32
        try:
            _pack_record(
                self._map, offset, kind, flags, micro_batches, step, end, tokens, samples, seq_len, target_len,
                *seconds, check,
            )  # fmt: skip
        except struct.error:
            # A count beyond its field; the totals hold it whole.
            _pack_record(
                self._map, offset, kind, flags, min(micro_batches, 0xFFFF), step & _U32, end, min(tokens, _U32),
                min(samples, _U32), min(seq_len, _U32), min(target_len, _U32), *seconds, check,
            )  # fmt: skip
        self.records = position = position + 1
        _pack_totals(self._map, layout.TOTALS_OFFSET, position, *totals)

    def shapes(self, step: int, shapes: dict[tuple[int, int, int], int]) -> None:
        """Append the batch shapes of a step whose micro-batches differ, ahead of the step's own record."""
        flat: list[int] = []
        for (sequences, length, target), calls in shapes.items():
            flat += [sequences & _U32, length & _U32, target & _U32, calls]
        width = 4 * layout.SHAPES_PER_RECORD
        for start in range(0, len(flat), width):
            part = flat[start : start + width]
            position = self.records
            layout.SHAPES.pack_into(
                self._map, layout.HEADER_SIZE + position % layout.CAPACITY * layout.RECORD_SIZE,
                layout.SHAPES_RECORD, len(part) // 4, 0, step & _U32, *part, *([0] * (width - len(part))), 0,
                layout.check_word(position),
            )  # fmt: skip
            self.records = position + 1


def _take_standard_descriptors() -> list[int]:
    """Hold 0, 1 and 2 where the program closed them: a stray write there would end in the map's own descriptor."""
    taken = []
    while True:
        descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        taken.append(descriptor)
        if descriptor > 2:  # noqa: PLR2004 - standard error
            return taken


def _reserve(descriptor: int, size: int) -> None:
    """Take the space now: a write to a hole on a full disk would kill the trainer with SIGBUS."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    else:
        os.write(descriptor, b"\0" * size)
