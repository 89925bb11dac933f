"""The group of commands ``wfctl agent``."""

from __future__ import annotations

import typer

#: Command → where its function lives. A module is only loaded where its command is called.
COMMANDS: dict[str, str] = {
    "install": "cli.commands.agent.installing:install",
    "uninstall": "cli.commands.agent.installing:uninstall",
    "hook": "cli.commands.agent.hook:hook",
}


def build() -> typer.Typer:
    """Return the group, without the commands that the table names."""
    return typer.Typer(
        help="The plugin for an agent's client: claude, codex, gemini, opencode, other.",
        no_args_is_help=True,
    )
