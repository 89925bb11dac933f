"""The group of commands ``wfctl machine``."""

from __future__ import annotations

import typer

#: Command → where its function lives. A module is only loaded where its command is called.
COMMANDS: dict[str, str] = {
    "init": "cli.commands.machine.beginning:init",
    "import": "cli.commands.machine.beginning:import_",
    "get": "cli.commands.machine.reads:get",
    "list": "cli.commands.machine.reads:list_",
    "check": "cli.commands.machine.reads:check",
    "describe": "cli.commands.machine.reads:describe",
    "update": "cli.commands.machine.changes:update",
    "transition": "cli.commands.machine.changes:transition",
    "append": "cli.commands.machine.changes:append",
    "task": "cli.commands.machine.changes:task",
    "task claim": "cli.commands.machine.changes:claim",
    "task release": "cli.commands.machine.changes:release",
    "checkpoint": "cli.commands.machine.changes:checkpoint",
    "cancel": "cli.commands.machine.changes:cancel",
    "approve": "cli.commands.machine.changes:approve",
    "limit": "cli.commands.machine.changes:limit",
    "rehydrate": "cli.commands.machine.rehydrating:rehydrate",
    "drift": "cli.commands.machine.reads:drift",
}


def build() -> typer.Typer:
    """Return the group, without the commands that the table names."""
    return typer.Typer(
        help="Phase machines: feature, debug, refactor, oneshot, dotagent, conductor, your own.",
        no_args_is_help=True,
    )
