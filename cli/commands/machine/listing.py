"""``wfctl machine list``: every machine of the root, and its staged workflow."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cli.commands.machine.workspace import Machines, is_nowhere, looking, output_of
from cli.frame.options import At, KnownAt
from cli.frame.workspace import moment
from lifecycle.machines.machine import Machine
from lifecycle.state.hindrance import hindrances
from lifecycle.state.workflow import Workflow
from projections.machines.blockers import blockers
from projections.words.times import age, utc_seconds
from service.machines import evidence, place
from service.reading.log import WorkflowLog
from service.reading.moment import Moment
from service.root.clock import system_clock, utc_text


def list_(
    context: typer.Context,
    type_: Annotated[str | None, typer.Option("--type", help="Only this type.")] = None,
    phase: Annotated[str | None, typer.Option(help="Only in this phase.")] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", "-n", metavar="N", min=1, help="Only the N changed last."),
    ] = None,
    at: At = None,
    known_at: KnownAt = None,
) -> None:
    """Every machine and the staged workflow: phase, age, blockers."""
    when = moment(at, known_at)
    if is_nowhere(context):
        output_of(context).result([], lambda: "no machine here")
        return
    with looking(context) as machines:
        found = [*_workflow(machines, when), *_machines(machines, when)]
        rows = [
            row for row in found if type_ in (None, row["type"]) and phase in (None, row["phase"])
        ]
        if limit is not None:
            rows = sorted(rows, key=lambda row: row["updated"], reverse=True)[:limit]
        machines.output.result(rows, lambda: "\n".join(map(_line, rows)) or "no machine here")


def _machines(machines: Machines, when: Moment | None) -> list[dict[str, Any]]:
    states = (machines.log(id_).state(when) for id_ in place.ids(machines.root, machines.store))
    now = utc_text(system_clock()) if when is None else None
    return [_row(machines, state, now) for state in states if state is not None]


def _row(machines: Machines, state: Machine, now: str | None) -> dict[str, Any]:
    files = evidence.evidence(machines.root.path, state)
    held = blockers(state, files, now)
    return _entry(state.id, state.definition.id, state.phase, state, [b["says"] for b in held])


def _entry(
    id_: str, type_: str, phase: str, state: Machine | Workflow, held: list[str]
) -> dict[str, Any]:
    now = utc_text(system_clock())
    return {
        "id": id_,
        "type": type_,
        "phase": phase,
        "status": state.status if isinstance(state, Machine) else None,
        "version": state.head,
        "updated": utc_seconds(state.updated),
        "age_seconds": age(state.updated, now),
        "blockers": held,
    }


def _workflow(machines: Machines, when: Moment | None) -> list[dict[str, Any]]:
    if machines.config.workflow is None:
        return []
    state = WorkflowLog(machines.store, machines.config.stream, machines.root.path).state(when)
    if state is None:
        return []
    held = [f"{one.stage}: {one.why}" if one.stage else one.why for one in hindrances(state)]
    return [_entry(state.id, "staged workflow", state.workflow_status or "active", state, held)]


def _line(row: dict[str, Any]) -> str:
    held = f"  blocked: {'; '.join(row['blockers'])}" if row["blockers"] else ""
    status = f" ({row['status']})" if row["status"] else ""
    phase = f"{row['phase']}{status}"
    return f"{row['id']:<24} {row['type']:<16} {phase:<28} {_age(row['age_seconds'])}{held}"


def _age(seconds: int) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit} ago"
    return f"{seconds} s ago"
