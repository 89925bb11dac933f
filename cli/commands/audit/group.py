"""``wfctl audit …``: questions to the history."""

from __future__ import annotations

import typer

#: Command → where its function lives. A module is only loaded where its command is called.
COMMANDS: dict[str, str] = {
    "amendments": "cli.commands.audit.history:amendments",
    "bypasses": "cli.commands.audit.history:bypasses",
    "transitions": "cli.commands.audit.history:transitions",
    "retries": "cli.commands.audit.history:retries",
    "attempts": "cli.commands.audit.history:attempts",
    "times": "cli.commands.audit.history:times",
    "queue": "cli.commands.audit.history:queue",
    "costs": "cli.commands.audit.history:costs",
    "refused": "cli.commands.audit.history:refused",
    "drift": "cli.commands.audit.history:drift",
    "sql": "cli.commands.audit.history:sql",
}


def build() -> typer.Typer:
    """Return the group, without the commands that the table names."""
    return typer.Typer(help="Questions to the history: table, json or csv.", no_args_is_help=True)
