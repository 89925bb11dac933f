"""The group of commands ``wfctl machine``."""

from __future__ import annotations

import typer

#: Command → where its function lives. A module is only loaded where its command is called.
COMMANDS: dict[str, str] = {
    "init": "cli.machine.beginning:init",
    "import": "cli.machine.importing:import_",
    "get": "cli.machine.reads:get",
    "list": "cli.machine.listing:list_",
    "check": "cli.machine.checking:check",
    "describe": "cli.machine.describing:describe",
    "update": "cli.machine.changes:update",
    "transition": "cli.machine.changes:transition",
    "append": "cli.machine.changes:append",
    "task": "cli.machine.changes:task",
    "checkpoint": "cli.machine.changes:checkpoint",
    "cancel": "cli.machine.changes:cancel",
    "approve": "cli.machine.approving:approve",
    "rehydrate": "cli.machine.rehydrating:rehydrate",
    "drift": "cli.machine.drift:drift",
}


def build() -> typer.Typer:
    """Return the group, without the commands that the table names."""
    return typer.Typer(
        help="Phase machines: feature, debug, refactor, oneshot, dotagent, conductor, your own.",
        no_args_is_help=True,
    )
