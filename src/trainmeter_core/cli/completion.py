"""`tm completion`: what the Tab key offers after `tm`; click's own scripts ask `tm` itself."""

from __future__ import annotations

import os
from importlib import import_module

import click
from click.shell_completion import CompletionItem, get_completion_class, shell_complete

from .commands import COMMANDS

VARIABLE = "_TM_COMPLETE"
SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print what makes the Tab key know tm's commands and options, for a shell's start-up file.

    \b
    eval "$(tm completion bash)"          in ~/.bashrc
    eval "$(tm completion zsh)"           in ~/.zshrc
    tm completion fish | source           in ~/.config/fish/config.fish
    """  # noqa: D301 - click knows a block of examples by the character
    found = get_completion_class(shell)
    assert found is not None
    # Without click's look at the version of bash, which starts one.
    script = found(_Words(), {}, "tm", VARIABLE)
    click.echo(script.source_template % script.source_vars())


def answer() -> int | None:
    """What the shell is to offer, where one asks; None where tm was called for something else."""
    asked = os.environ.get(VARIABLE)
    return shell_complete(_Words(), {}, "tm", VARIABLE, asked) if asked else None


class _Words(click.Group):
    """The command line of tm as a click group: its own options, its commands, or any file."""

    def __init__(self) -> None:
        from .run import OPTIONS

        super().__init__("tm", params=list(OPTIONS), add_help_option=False)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - the same
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        found: click.Command = getattr(import_module(module), attribute)
        return found

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """A script or a file of its arguments, besides what click offers."""
        return [*super().shell_complete(ctx, incomplete), CompletionItem(incomplete, type="file")]
