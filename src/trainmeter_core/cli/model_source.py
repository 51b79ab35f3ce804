"""The model that `tm flops` and `tm plan` are asked about: a config file, or a few numbers on the command line."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from trainmeter_core.model_shape import TARGET
from trainmeter_core.quantities import positive_count, positive_number
from trainmeter_core.readings import Absent
from trainmeter_core.shape_from import dense_decoder, shape_of

from .config_check import what_is_wrong

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainmeter_core.devices import Device
    from trainmeter_core.model_shape import Batch, ModelShape

_F = TypeVar("_F", bound="Callable[..., Any]")
MOST_CONFIG_BYTES = 1 << 24
# People round the size of a model: 8B is 8.03 billion.
ROUNDED = 0.02


class Quantity(click.ParamType):  # type: ignore[type-arg]  # generic in the newest click only
    """A number as people write it: 20B, 1.5T, 4096."""

    name = "quantity"

    def __init__(self, *, whole: bool = True) -> None:
        self._whole = whole

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return positive_count(value) if self._whole else float(positive_number(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


COUNT, REAL = Quantity(), Quantity(whole=False)

_OPTIONS = (
    click.option("--hf-config", "--config", "path", metavar="FILE", help="config.json of a model, - for stdin"),
    click.option("--params", type=COUNT, metavar="N", help="parameters of a dense decoder, with --layers and --width"),
    click.option("--layers", type=COUNT, metavar="L", help="its layers"),
    click.option("--width", type=COUNT, metavar="D", help="its hidden size"),
    click.option("--heads", type=COUNT, metavar="H", help="its heads (default: of 128 features each)"),
    click.option("--head-dim", type=COUNT, metavar="h", help="features of a head (default: width / heads)"),
    click.option("--kv-heads", type=COUNT, metavar="G", help="its heads of keys and values (default: as heads)"),
    click.option("--vocab", type=COUNT, metavar="V", help="its vocabulary (default: 32000)"),
    click.option("--ffn", type=COUNT, metavar="F", help="its MLP width (default: what --params leaves)"),
    click.option("--tied", is_flag=True, help="its LM head is the token table"),
    click.option("--seq-len", type=COUNT, metavar="T", help="tokens per sequence (default: the config's longest)"),
)
_GPUS = re.compile(r"(?:(\d+) *[x*] *)?(.*)", re.DOTALL)
WITHOUT_CONFIG = ("params", "layers", "width", "heads", "head_dim", "kv_heads", "vocab", "ffn")


def model_options(function: _F) -> _F:
    """The options that name a model, for a command that hands them to `model_of`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def model_of(given: dict[str, Any]) -> tuple[ModelShape, int] | None:
    """Take the model's options out of `given`; the shape and the sequence length, 0 where nothing tells it.

    None when no model is named. Raises click.UsageError with one line for a file that is no config, and for numbers
    that do not make a model.
    """
    path, seq_len, tied = given.pop("path"), given.pop("seq_len"), given.pop("tied")
    numbers = {name: given.pop(name) for name in WITHOUT_CONFIG}
    if path is None:
        return (_decoder(numbers, tied), seq_len or 0) if any(numbers.values()) else None
    if any(numbers.values()) or tied:
        raise click.UsageError("give a config or the numbers of a decoder, not both")
    config = _config(path)
    wrong = what_is_wrong(config)
    if wrong:
        raise click.UsageError(f"{path}: {wrong}")
    try:
        found = shape_of({"class": None, "config": config, "modules": None})
    except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError) as error:  # numbers that are none
        raise click.UsageError(f"{path}: not a config that can be read ({type(error).__name__}: {error})") from None
    if isinstance(found, Absent):
        raise click.UsageError(f"{path}: {found.reason}")
    return found[0], seq_len or _longest(config)


def batch_of(shape: ModelShape, sequences: int, seq_len: int, target_len: int = 0) -> Batch:
    """The batch that is asked about. Raises click.UsageError where the model needs a length that was not given."""
    fixed = all(stream.length is not None for stream in shape.streams())  # patches, not tokens
    batch = shape.batch_seen(sequences, 0 if fixed else seq_len, target_len)
    if isinstance(batch, Absent):
        raise click.UsageError("no sequence length is known; give --seq-len")
    return batch


def needs_target(shape: ModelShape, batch: Batch) -> bool:
    """Whether the model is an encoder-decoder, and the batch does not say how many positions its decoder has."""
    return TARGET in shape.streams() and not TARGET.is_known(batch)


NO_MODEL = "which model? give --hf-config FILE, or --layers L --width D with --params N or --ffn F"


def _config(path: str) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if path == "-" else _text(Path(path))
        config = json.loads(text.lstrip("\ufeff"))
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror or error}") from None
    except RecursionError:
        raise click.UsageError(f"{path} is not a config: it is nested too deeply") from None
    except ValueError as error:  # not JSON, or not text
        raise click.UsageError(f"{path} is not a JSON config: {error}") from None
    if not isinstance(config, dict):
        raise click.UsageError(f"{path} is not a config: a JSON object with the model's numbers is needed")
    return config


def _text(path: Path) -> str:
    if path.is_dir():
        path /= "config.json"
    if path.stat().st_size > MOST_CONFIG_BYTES:
        raise ValueError("larger than a config is")
    return path.read_text(encoding="utf-8")


def _longest(config: dict[str, Any]) -> int:
    text = config.get("text_config")
    for table in (config, text if isinstance(text, dict) else {}):
        for name in ("max_position_embeddings", "n_positions", "block_size", "sequence_len", "max_seq_len"):
            value = table.get(name)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
    return 0


def _decoder(numbers: dict[str, int | None], tied: bool) -> ModelShape:
    params, layers, width = numbers["params"], numbers["layers"], numbers["width"]
    if layers is None or width is None or (params is None and numbers["ffn"] is None):
        raise click.UsageError(NO_MODEL)
    heads = numbers["heads"] or max(1, width // 128)
    if width % heads and not numbers["head_dim"]:
        raise click.UsageError(f"a width of {width} is not a multiple of {heads} heads; give --heads or --head-dim")
    kv_heads = numbers["kv_heads"] or heads
    if heads % kv_heads:
        raise click.UsageError(f"{heads} heads cannot share {kv_heads} heads of keys and values")
    vocabulary = numbers["vocab"] or 32_000

    def decoder(ffn: int) -> ModelShape:
        norms = (2 * layers + 1) * width
        return dense_decoder(
            layers=layers, width=width, heads=heads, kv_heads=kv_heads, vocabulary=vocabulary, ffn=ffn,
            head_dim=numbers["head_dim"] or 0, gated=True, norms=norms, tied=tied,
        )  # fmt: skip

    if numbers["ffn"] is not None:
        found = decoder(numbers["ffn"])
        if params is not None and abs(_parameters(found) - params) > ROUNDED * params:
            raise click.UsageError(f"these numbers make {_parameters(found):,} parameters, not {params:,}")
        return found
    per_row = 3 * width * layers
    rest = (params or 0) - _parameters(decoder(0))
    ffn = round(rest / per_row)
    if ffn < 1:
        raise click.UsageError(f"{params:,} parameters are too few for {layers} layers of width {width}")
    return decoder(ffn)


def _parameters(shape: ModelShape) -> int:
    if isinstance(shape.parameters, Absent):
        raise click.UsageError(shape.parameters.reason)
    return shape.parameters


def devices_of(text: str) -> tuple[int, Device]:
    """`8xH100-SXM` as a number and a device. Raises click.UsageError; an ambiguous name lists what it may be."""
    from trainmeter_core.devices import by_short_name

    number, name = _GPUS.fullmatch(text.strip()).groups("1")  # type: ignore[union-attr]  # it fits any text
    if not int(number):
        raise click.UsageError(f"{text!r}: at least one GPU is needed")
    device = by_short_name(name.strip())
    if isinstance(device, Absent):
        raise click.UsageError(device.reason.replace("; give --peak-tflops", ""))
    return int(number), device
