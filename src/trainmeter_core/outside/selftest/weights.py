"""What a checkpoint holds, tensor by tensor, read by the trainer's own Python, which runs no code of the file's."""

from __future__ import annotations

import functools
import hashlib
import json
import subprocess
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

_TORCH = (".pt", ".pth", ".ckpt", ".bin", ".tar")
_SAFETENSORS = ".safetensors"
_TIMEOUT_S = 300
_LARGEST_HEAD = 100 << 20

_READ = """
import hashlib, json, sys
import torch
table = {}
def walk(name, value):
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        raw = value.contiguous().view(-1).view(torch.uint8).numpy().tobytes() if value.numel() else b""
        table[name] = [str(value.dtype), list(value.shape), hashlib.sha256(raw).hexdigest()]
    elif isinstance(value, dict):
        for key, inner in value.items():
            walk(name + "." + str(key), inner)
    elif isinstance(value, (list, tuple)):
        for at, inner in enumerate(value):
            walk(name + "." + str(at), inner)
    else:
        table[name] = repr(value)
walk("", torch.load(sys.argv[1], map_location="cpu", weights_only=True))
print(json.dumps(table))
"""


def is_weights(name: str) -> bool:
    """Whether a file may be a checkpoint, by its name."""
    return name.endswith((*_TORCH, _SAFETENSORS))


@functools.lru_cache(maxsize=256)
def tensors_of(path: Path, python: str) -> dict[str, Any] | None:
    """Each tensor by name as its type, shape and a hash of its bits; None where the file cannot be read so."""
    if path.name.endswith(_SAFETENSORS):
        return _safetensors(path)
    try:
        done = subprocess.run(  # noqa: S603 - the user's own Python on the file that their program wrote
            [python, "-c", _READ, str(path)], capture_output=True, timeout=_TIMEOUT_S, check=False
        )
        table = json.loads(done.stdout) if done.returncode == 0 else None
    except (OSError, subprocess.TimeoutExpired, ValueError):  # no such Python; a file too large to read in time
        return None
    return table if isinstance(table, dict) else None


def _safetensors(path: Path) -> dict[str, Any] | None:
    """The format is a length, a JSON table, and the tensors' bytes."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > _LARGEST_HEAD:
                return None
            table = json.loads(file.read(length))
            found: dict[str, Any] = {"metadata": table.pop("__metadata__", {})}
            for name, about in table.items():
                begin, end = about["data_offsets"]
                file.seek(8 + length + begin)
                found[name] = [about["dtype"], about["shape"], hashlib.sha256(file.read(end - begin)).hexdigest()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # not this format
        return None
    return found
