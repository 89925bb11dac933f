"""``wfctl audit …``: questions to the history of amendments."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.failure import FINDINGS
from cli.workspace import reading
from service.audit import Record, bypasses, records


def build() -> typer.Typer:
    """Return the group of commands."""
    group = typer.Typer(help="Who changed what, and who agreed.", no_args_is_help=True)
    group.command("amendments")(amendments)
    group.command("bypasses")(attempts)
    return group


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
) -> None:
    """Every amendment: what it changed, who proposed and who decided it."""
    with reading(context) as workflow:
        found = [
            record
            for record in records(workflow.log)
            if state in (None, record.state)
            and stage in (None, record.stage)
            and _touches(record, field)
            and _involves(record, person)
        ]
        workflow.output.records([r.to_dict() for r in found], lambda r: _line(Record(**r)))


def _touches(record: Record, field: str | None) -> bool:
    return field is None or any(f"{f}.".startswith(f"{field}.") for f in record.fields)


def _involves(record: Record, person: str | None) -> bool:
    named = [w for w in (record.proposed_by, record.decided_by, record.signer) if w is not None]
    return person is None or any(person in (who, who.partition(":")[2]) for who in named)


def _line(record: Record) -> str:
    decided = f"{record.state} by {record.signer or record.decided_by}" if record.decided_by else ""
    return (
        f"{record.id:<9} {record.type:<17} {record.stage or 'workflow':<9} "
        f"{', '.join(record.fields) or '-'}  proposed by {record.proposed_by}; "
        f"{decided or record.state}: {record.description}"
    )


def attempts(context: typer.Context) -> None:
    """Every attempt to get round consent, and why it came to nothing (exit 7 if any)."""
    with reading(context) as workflow:
        found = [bypass.to_dict() for bypass in bypasses(workflow.root, workflow.log)]
        workflow.output.records(
            found,
            lambda b: (
                f"{(b['at'] or '')[:19]:<19} {b['kind']:<11} {b['actor'] or '-':<16} "
                f"{b['what']}: {b['why']}"
            ),
        )
    if found:
        raise typer.Exit(FINDINGS)
