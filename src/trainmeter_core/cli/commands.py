"""The subcommands, and nothing loaded: a name, where its click command is, and one line of help."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS: dict[str, tuple[str, str]] = {
    "passport": ("trainmeter_core.cli.passport:command", "what a run spent, and how well it used its hardware"),
    "view": ("trainmeter_core.cli.view:command", "look at a run where it lives, or in a viewer on loopback"),
    "publish": ("trainmeter_core.cli.publish:command", "send what a tracker that did not answer has missed"),
    "compare": ("trainmeter_core.cli.compare:command", "what changed between two runs, and what it did to the MFU"),
    "export": ("trainmeter_core.cli.export:command", "a finished run's series as a file, or into a tracker"),
    "recover": ("trainmeter_core.cli.recover:command", "passports for runs whose tm was killed"),
    "runs": ("trainmeter_core.cli.runs:command", "the runs on this machine: list, rm, prune"),
    "flops": ("trainmeter_core.cli.flops:command", "training FLOPs of a model under every convention"),
    "plan": ("trainmeter_core.cli.plan:command", "FLOPs, time and memory of a run before it is started"),
    "attach": ("trainmeter_core.cli.attach:command", "watch a program that is running already"),
    "enable": ("trainmeter_core.cli.enable:command", "programs that measure themselves, where tm cannot be in front"),
    "disable": ("trainmeter_core.cli.enable:disable_command", ""),  # told by `tm enable --help`
    "doctor": ("trainmeter_core.cli.doctor:command", "what tm can see here, and what to do about the rest"),
    "selftest": ("trainmeter_core.cli.selftest:command", "your command without and with tm: does anything differ?"),
    "completion": ("trainmeter_core.cli.completion:command", ""),  # told by the pages; once in a shell's life
}


def adapter_command(words: Sequence[str]) -> str | None:
    """Where the click command of ``tm <adapter> <name>`` is; None when these words are no adapter's command.

    A program may have an adapter's name: only the names that the adapter itself gives are taken from it.
    """
    if len(words) < 2 or "/" in words[0] or "." in words[0]:  # noqa: PLR2004 - the adapter and the command
        return None
    from trainmeter_core.entry_points import entry_points
    from trainmeter_core.hookspecs import GROUP

    if all(entry.name != words[0] for entry in entry_points(GROUP)):
        return None
    from trainmeter_core.plugins import find_plugins, managers

    for name, manager in managers(find_plugins()[0]):
        if name == words[0]:
            told = manager.hook.commands() or {}
            return told[words[1]][0] if words[1] in told else None
    return None
