"""The layout of the step ring, for the agent that writes and `tm` that reads: a header page, then 64-byte records.

All numbers are little-endian. Times are seconds of CLOCK_MONOTONIC, which all processes of a node share.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

MAGIC = b"TMRING01"
HEADER_SIZE = 4096
RECORD_SIZE = 64
CAPACITY = 16320
RING_BYTES = HEADER_SIZE + RECORD_SIZE * CAPACITY

# Written once: magic, record size, capacity, pid, rank, local rank, world size, wall clock and monotonic clock at the
# same moment, process start on the monotonic clock.
IDENTITY = struct.Struct("<8sIIIiiiddd")

# Rewritten after every step: records written so far, steps, skipped steps, tokens, samples, failures inside the agent.
TOTALS = struct.Struct("<QQQQQQ")
TOTALS_OFFSET = 128

# Doubles of the header, in the machine's own byte order, by their places in it. What the process is doing now, an index
# into series.TIME_KINDS; the number of the last usual step that ended, and when it did; the seconds of the first five
# TIME_KINDS since the process's start, then and at the end of the last step with a record. Usual steps after the last
# record have none yet: they are like the step of that record, and the totals do not have them.
PHASE = 32
ENDED = 33
ENDED_AT = 34
SECONDS_NOW = 35
SECONDS_WRITTEN = 40
STATE_END = 45
MOST_UNWRITTEN = 64
STATE = struct.Struct("=13d")
STATE_OFFSET = 8 * PHASE

STEP_RECORD = 1
SHAPES_RECORD = 2
TAIL_RECORD = 3

FLAG_STARTUP = 1
FLAG_SKIPPED = 2
FLAG_MIXED_SHAPES = 4
FLAG_BATCH_UNSEEN = 8
# Set from the first use of a data loader that the taps see: before it, a data wait of 0 would be a guess.
FLAG_LOADER_SEEN = 16

# type, flags, micro-batches, step, end time, tokens, samples, sequence length, target length, then seconds:
# wall, step, data wait, checkpoint, eval, logging; last the check word.
RECORD = struct.Struct("<BBHIdIIII6f4xI")

# type, number of entries, unused, step, three entries of (sequences, length, target length, calls), unused, check word.
SHAPES = struct.Struct("<BBHI12III")
SHAPES_PER_RECORD = 3

CHECK = 0x5A3C96E1
_U32 = 0xFFFFFFFF


def check_word(position: int) -> int:
    """The last word of the record at this position in the stream: a record without it was not finished."""
    return (position ^ CHECK) & _U32


class StepRecord(NamedTuple):
    """One optimizer step of one rank, or the tail after the last one. Durations are seconds of the host's clock."""

    type: int
    flags: int
    micro_batches: int
    step: int
    end: float
    tokens: int
    samples: int
    seq_len: int
    target_len: int
    wall_s: float
    step_s: float
    data_wait_s: float
    checkpoint_s: float
    eval_s: float
    logging_s: float


class Identity(NamedTuple):
    """Who writes a ring."""

    pid: int
    rank: int
    local_rank: int
    world_size: int
    wall_clock: float
    monotonic: float
    process_start: float


class Totals(NamedTuple):
    """Sums since the start of the process; they stay true when records were overwritten unread."""

    records: int
    steps: int
    skipped: int
    tokens: int
    samples: int
    failures: int


assert RECORD.size == RECORD_SIZE
assert SHAPES.size == RECORD_SIZE
