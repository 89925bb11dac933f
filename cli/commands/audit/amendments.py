"""``wfctl audit amendments`` and ``bypasses``: who changed what, and who agreed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Annotated, Any

import typer

from cli.commands.audit.history import text
from cli.frame.exit_codes import FINDINGS
from cli.frame.options import At, KnownAt
from cli.frame.workspace import Reading, moment, reading
from cli.terminal.table import TableColumn, present
from eventstore.errors import EventStoreError
from lifecycle.errors import LifecycleError
from service.errors import ServiceError
from service.questions.audit import (
    AmendmentRecord,
    Bypass,
    bypasses,
    of_account,
    of_machine,
    of_memory,
    records,
)
from service.reading.moment import Moment


def amendments(
    context: typer.Context,
    state: Annotated[
        str | None, typer.Option(metavar="STATE", help="proposed, approved or rejected.")
    ] = None,
    stage: Annotated[str | None, typer.Option(metavar="STAGE", help="Only of this stage.")] = None,
    field: Annotated[
        str | None, typer.Option(metavar="FIELD", help="Such as parameters or parameters.x.")
    ] = None,
    person: Annotated[
        str | None, typer.Option("--by", metavar="WHO", help="Proposed, decided or signed by.")
    ] = None,
    at: At = None,
    known_at: KnownAt = None,
) -> None:
    """Every amendment: what it changed, who proposed and who decided it."""
    view = moment(at, known_at)
    with reading(context) as workflow:
        found = [
            record
            for record in records(workflow.log, view)
            if state in (None, record.state)
            and stage in (None, record.stage)
            and _touches(record, field)
            and _involves(record, person)
        ]
        present(workflow.output, [r.to_dict() for r in found], _AMENDMENTS, _NAMES, view)


def _touches(record: AmendmentRecord, field: str | None) -> bool:
    return field is None or any(f"{f}.".startswith(f"{field}.") for f in record.fields)


def _involves(record: AmendmentRecord, person: str | None) -> bool:
    named = [w for w in (record.proposed_by, record.decided_by, record.signer) if w is not None]
    return person is None or any(person in (who, who.partition(":")[2]) for who in named)


def _decision(record: Mapping[str, Any]) -> str:
    who = record["signer"] or record["decided_by"]
    return f"{record['state']} by {who}" if who else str(record["state"])


_NAMES = tuple(field.name for field in fields(AmendmentRecord))
_AMENDMENTS = (
    *(text("id"), text("type")),
    TableColumn("STAGE", lambda record: record["stage"] or "workflow"),
    *(text("proposed_by"), TableColumn("DECISION", _decision), text("change")),
)


def attempts(context: typer.Context, at: At = None, known_at: KnownAt = None) -> None:
    """Every attempt to get round consent, and why it came to nothing (exit 7 if any)."""
    view = moment(at, known_at)
    with reading(context) as workflow:
        every = bypasses(workflow.root, workflow.log, view)
        every += [*_of_account(workflow, view), *_of_machines(workflow, view)]
        found = [one.to_dict() for one in every]
        present(workflow.output, found, _BYPASSES, tuple(f.name for f in fields(Bypass)), view)
    if found:
        raise typer.Exit(FINDINGS)


def _of_account(workflow: Reading, view: Moment | None) -> list[Bypass]:
    """Return what status, report and page tell too; as of a moment, as far as the log has it."""
    from projections.words.account import Seen
    from projections.words.came_about import came_about
    from reconciler.files.freshness import look

    try:
        state = workflow.log.current(view)
        seen = look(workflow.root, workflow.log, state) if view is None else Seen()
    except (EventStoreError, LifecycleError, ServiceError):
        return []  # there is no workflow, or its log is altered, which is told already
    return of_account(came_about(state, seen.times, seen.gone))


def _of_machines(workflow: Reading, view: Moment | None) -> Iterator[Bypass]:
    from service.machines import place
    from service.machines.log import MachineLog

    store = workflow.log.store
    for id_ in place.ids(workflow.root, store):
        log = MachineLog(store, id_, workflow.root.path)
        if view is None:
            yield from of_memory(workflow.root, store, log.stream)
        yield from of_machine(log.steps(upto=view), log.ineffective())


_BYPASSES = (
    TableColumn("WHEN", lambda record: (record["at"] or "")[:19]),
    *(text("kind"), text("actor", "WHO"), text("what"), text("why")),
)
