"""What a process tells of itself at the end of its first optimizer step: who it is, and where it went on from."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from .checkpoints import LOADS, made_before
from .guard import site

if TYPE_CHECKING:
    from ..ring_format import Identity

MYPY = False
if MYPY:
    from typing import Any

_MOST_WORDS = 64
_LONGEST = 400


def process_record(identity: Identity, optimizer: Any, *, skipped: bool) -> dict[str, Any]:
    """The fields of a `process` record; `skipped` when the step that just ended was held back."""
    told = {
        "local_rank": identity.local_rank,
        "world_size": identity.world_size,
        "python": sys.version.split()[0],
        "torch": str(getattr(sys.modules.get("torch"), "__version__", "")),
        "started": identity.wall_clock - (identity.monotonic - identity.process_start),
        "loads": LOADS.count,
        "loaded": list(LOADS.marks),
    }
    with site("restart"):
        told["made_before"] = made_before(optimizer, skipped=skipped)
    with site("job"):
        told.update(_job(identity))
    return told


def _job(identity: Identity) -> dict[str, Any]:
    """What tells ranks and restarts of one training from another training that the same command started."""
    from ..passport.redact import redact_command

    environ = os.environ
    words = getattr(sys, "orig_argv", None) or [sys.executable, *sys.argv]
    job = {
        "parent": os.getppid(),
        "program": _program(),
        "command": redact_command([word[:_LONGEST] for word in words[:_MOST_WORDS]]),
    }
    if identity.world_size > 1:
        job["rendezvous"] = environ.get("MASTER_ADDR", "") + ":" + environ.get("MASTER_PORT", "")
    elastic = environ.get("TORCHELASTIC_RUN_ID", "none")
    if elastic != "none":
        job["elastic"] = elastic
    return job


def _program() -> int:
    """The process whose command line this is: for a child of multiprocessing, or of a fork, the one that made it."""
    from .this_process import PROGRAM

    multiprocessing = sys.modules.get("multiprocessing.process")
    parent = multiprocessing.parent_process() if multiprocessing is not None else None
    return int(parent.pid) if parent is not None and parent.pid else PROGRAM
