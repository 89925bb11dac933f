"""``wfctl audit sql``: any question to the history, for reading only."""

from __future__ import annotations

import sys
from decimal import Decimal
from math import isfinite
from typing import Annotated, Any

import typer

from cli.commands.audit.history import text
from cli.frame.options import At, KnownAt
from cli.frame.patience import Watch, leave
from cli.frame.workspace import moment, reading, settings_of
from cli.settings import Format
from cli.terminal.table import present
from service.errors import InvalidOption, SqlTooLong
from service.sql.questions import SQL_PATIENCE

Sql = Annotated[str, typer.Argument(metavar="SQL", help="One statement that reads; - for stdin.")]


def sql(
    context: typer.Context,
    statement: Sql,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.001, max=3600, help="What it may take.")
    ] = SQL_PATIENCE,
    at: At = None,
    known_at: KnownAt = None,
) -> None:
    """Ask in SQL over v_events, v_transitions, v_attempts, v_amendments and v_sessions."""
    asked = sys.stdin.read() if statement == "-" else statement
    if not asked.strip():
        raise InvalidOption("expected a statement, found nothing")
    from service.sql.inquiry import inquiry  # loads the tables of the history

    view = moment(at, known_at)
    with (
        reading(context) as workflow,
        inquiry(workflow.root.address, workflow.log, view) as desk,
        Watch(timeout, lambda: leave(settings_of(context), SqlTooLong(timeout))) as watch,
    ):
        answer = watch.step(lambda: desk.ask(asked, {}, timeout))
        names = _told_apart(answer.columns)
        records = (dict(zip(names, row, strict=True)) for row in watch.each(answer.rows))
        output = workflow.output
        if output.settings.format is Format.JSONL:
            output.records(map(_plain, records), lambda _: "")
        else:
            columns = [text(name, name) for name in names]
            present(output, list(map(_plain, records)), columns, names, view)


def _told_apart(names: list[str]) -> list[str]:
    """Return the columns' names, those that repeat numbered: ``count``, ``count_2``."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return found


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    """Return the record with what JSON has no way to hold as text: bytes, and no finite number."""
    return {name: _as_json(value) for name, value in record.items()}


def _as_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal) and value.is_finite():  # a sum or a mean on PostgreSQL
        return int(value) if value == value.to_integral_value() else float(value)
    return str(value) if isinstance(value, float) and not isfinite(value) else value
