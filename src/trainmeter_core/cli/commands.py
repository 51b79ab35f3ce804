"""The subcommands, and nothing loaded: a name, where its click command is, and one line of help."""

from __future__ import annotations

COMMANDS: dict[str, tuple[str, str]] = {
    "passport": ("trainmeter_core.cli.passport:command", "what a run spent, and how well it used its hardware"),
    "doctor": ("trainmeter_core.cli.doctor:command", "what tm can see here, and what to do about the rest"),
}
