"""Opens plain files only: a pipe or a device that stands in a file's place is refused and never waited for."""

from __future__ import annotations

import errno
import os
import stat


def opener(path: str | os.PathLike[str], flags: int) -> int:
    """For `open(path, opener=opener)`. Raises OSError for anything but a plain file."""
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a plain file", os.fspath(path))
