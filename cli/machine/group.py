"""The group of commands ``wfctl machine``."""

from __future__ import annotations

from importlib import import_module

import typer

#: Command → where its function lives.
COMMANDS: dict[str, str] = {
    "init": "cli.machine.beginning:init",
    "import": "cli.machine.importing:import_",
    "get": "cli.machine.reads:get",
    "list": "cli.machine.listing:list_",
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
    """Return the group of commands."""
    group = typer.Typer(
        help="Phase machines: feature, debug, refactor, oneshot, dotagent, conductor, your own.",
        no_args_is_help=True,
    )
    for name, place in COMMANDS.items():
        module, _, attribute = place.partition(":")
        group.command(name)(getattr(import_module(module), attribute))
    return group
