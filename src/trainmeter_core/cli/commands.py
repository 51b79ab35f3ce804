"""The subcommands, and nothing loaded: a name, where its click command is, and one line of help."""

from __future__ import annotations

COMMANDS: dict[str, tuple[str, str]] = {
    "passport": ("trainmeter_core.cli.passport:command", "what a run spent, and how well it used its hardware"),
    "compare": ("trainmeter_core.cli.compare:command", "what changed between two runs, and what it did to the MFU"),
    "export": ("trainmeter_core.cli.export:command", "a finished run's series as a file, or into a tracker"),
    "recover": ("trainmeter_core.cli.recover:command", "passports for runs whose tm was killed"),
    "runs": ("trainmeter_core.cli.runs:command", "the runs on this machine: list, rm, prune"),
    "attach": ("trainmeter_core.cli.attach:command", "watch a program that is running already"),
    "doctor": ("trainmeter_core.cli.doctor:command", "what tm can see here, and what to do about the rest"),
}
