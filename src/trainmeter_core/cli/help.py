"""The one page that `tm` and `tm --help` print."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_EXAMPLES = """\
tm runs a training program as it is and puts tokens, FLOPs, MFU and GPU use into the tracker it already uses.

  tm train.py --lr 3e-4                instead of  python train.py --lr 3e-4
  tm -m mypackage.train                instead of  python -m mypackage.train
  tm torchrun --nproc_per_node=8 t.py  any command: torchrun, accelerate launch, srun, bash
  tm --budget-tokens 20B train.py      how far along the run is, and when it ends
  TM=0 tm train.py                     without tm, for comparison; tm --off train.py is the same
"""


def page(options: Iterable[click.Parameter], commands: Mapping[str, tuple[str, str]]) -> str:
    """Usage, examples, commands and options."""
    rows = [
        (" ".join((", ".join((*option.opts, *option.secondary_opts)), _value(option))).rstrip(), option.help or "")
        for option in options
        if isinstance(option, click.Option) and not option.hidden
    ]
    return "\n".join(
        (
            "usage: tm [options] SCRIPT.py [args] | tm [options] -m MODULE [args] | tm [options] [--] COMMAND [args]\n",
            _EXAMPLES,
            "commands (tm COMMAND --help tells more; tm -- COMMAND runs a program of that name):",
            *(f"  {name:<21} {text}" for name, (_, text) in commands.items() if text),
            "",
            "options, before the script; everything after it belongs to it:",
            *(f"  {name:<21} {text}" for name, text in rows),
        )
    )


def _value(option: click.Option) -> str:
    return option.metavar or ""
