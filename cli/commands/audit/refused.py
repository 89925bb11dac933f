"""``wfctl audit refused``: commands that the rules said no to."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.commands.audit.history import text
from cli.commands.events import of_machine
from cli.frame.options import At, KnownAt
from cli.frame.workspace import moment, reading, settings_of
from cli.terminal.table import TableColumn, present
from projections.words.times import utc_seconds
from service.questions.refusals import refusals_by

_NAMES = ("at", "actor", "command", "code", "message", "data")


def refused(
    context: typer.Context,
    command: Annotated[
        str | None, typer.Option("--command", help="Only of this command, such as stage.retried.")
    ] = None,
    code: Annotated[str | None, typer.Option(help="Only for this reason.")] = None,
    machine: Annotated[
        str | None, typer.Option(metavar="ID", help="Those of a phase machine.")
    ] = None,
    at: At = None,
    known_at: KnownAt = None,
) -> None:
    """Every command that the rules refused, from their own table; --actor KIND:NAME narrows it."""
    actor, view = settings_of(context).actor, moment(at, known_at)
    with reading(context) as root:
        workflow = root if machine is None else of_machine(root, machine)
        records = [
            {name: getattr(refusal, name) for name in _NAMES}
            for refusal in refusals_by(workflow.log, view)
            if command is None or command in refusal.command.split(",")
            if code in (None, refusal.code)
            if actor in (None, refusal.actor, refusal.actor.partition(":")[0])
        ]
        present(workflow.output, records, _COLUMNS, _NAMES, view)


_COLUMNS = (
    TableColumn("WHEN", lambda record: utc_seconds(record["at"]) or ""),
    *(text("actor", "WHO"), text("command"), text("code"), text("message", "WHY", 80)),
)
