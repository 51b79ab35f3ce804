"""Event files as TensorFlow writes them: named ``….v2``, scalars as float tensors, ten events to a flush."""

from __future__ import annotations

import os
import socket
import struct
import time

from google_crc32c import value as crc32c
from tensorboard.compat.proto.event_pb2 import Event
from typing_extensions import Self

_QUEUE = 10
_FLOAT = 1
_current: list[_Writer] = []


class _Writer:
    def __init__(self, logdir: str) -> None:
        os.makedirs(logdir, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}.0.v2"
        self._file = open(os.path.join(logdir, name), "ab")  # noqa: SIM115 - open as long as the program
        self._queue: list[bytes] = []
        self.write(Event(wall_time=time.time(), file_version="brain.Event:2"))
        self.flush()

    def as_default(self) -> _Writer:
        return self

    def __enter__(self) -> Self:
        _current.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _current.pop()

    def write(self, event: Event) -> None:
        data = event.SerializeToString()
        length = struct.pack("<Q", len(data))
        self._queue.append(length + _masked(length) + data + _masked(data))
        if len(self._queue) >= _QUEUE:
            self.flush()

    def flush(self) -> None:
        self._file.write(b"".join(self._queue))
        self._file.flush()
        self._queue.clear()


def _masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def create_file_writer_v2(logdir, max_queue=None, flush_millis=None, filename_suffix=None, name=None):
    """Create a summary file writer for the given log directory."""
    return _Writer(os.fspath(logdir))


def scalar(name, data, step):
    event = Event(step=step, wall_time=time.time())
    value = event.summary.value.add(tag=name)
    value.metadata.plugin_data.plugin_name = "scalars"
    value.tensor.dtype = _FLOAT
    value.tensor.tensor_content = struct.pack("<f", data)
    _current[-1].write(event)


def flush():
    _current[-1].flush()
