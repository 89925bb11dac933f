"""``wfctl amend …``: definitional changes, proposed and decided."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from cli import impact as words
from cli import proposal
from cli.consent import consenter_of
from cli.options import At, CommandId, DryRun, ExpectedVersion, KnownAt, write_options
from cli.output import Output
from cli.workspace import engine, moment, writing
from cli.writes import events_of, foreseen, tell, write
from lifecycle import payload as p
from lifecycle.decide_amendments import of_proposal
from lifecycle.errors import UnknownAmendment
from lifecycle.impact import Impact, impact_of
from lifecycle.schema import payload_of
from lifecycle.workflow import Amendment, Workflow
from reconciler.stopping import stop_all
from service import amendments as decisions
from service.clock import utc_text
from service.errors import InvalidOption
from service.service import Outcome, Service, WriteOptions

Id = Annotated[str, typer.Argument(metavar="AMENDMENT", help="Its id, such as amend-1.")]
Sets = Annotated[list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="A new value.")]
Unset = Annotated[
    list[str] | None, typer.Option("--unset", metavar="PATH", help="A key to take away.")
]
Description = Annotated[
    str | None, typer.Option(metavar="TEXT", help="What, if the change does not say it.")
]
Insert = Annotated[
    str | None, typer.Option(metavar="JSON|@FILE", help="Definition of a stage to insert.")
]
Place = Annotated[
    int | None, typer.Option(metavar="N", min=0, help="Its place in the array, 0 is first.")
]
Dependents = Annotated[
    list[str] | None,
    typer.Option(metavar="STAGE", help="A stage that shall depend on the inserted one."),
]
Source = Annotated[
    str | None, typer.Option("--from", metavar="FILE|-", help="All of it from a file.")
]


def build() -> typer.Typer:
    """Return the group of commands."""
    group = typer.Typer(help="Definitional changes: proposed, then decided.", no_args_is_help=True)
    group.command("propose")(propose)
    group.command("approve")(approve)
    group.command("reject")(reject)
    group.command("list")(list_)
    group.command("show")(show)
    return group


def propose(
    context: typer.Context,
    type_: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="Amendment type, if not plain.")
    ] = None,
    stage: Annotated[str | None, typer.Option(metavar="STAGE", help="The stage.")] = None,
    sets: Sets = None,
    unset: Unset = None,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why.")] = None,
    description: Description = None,
    insert: Insert = None,
    place: Place = None,
    dependent: Dependents = None,
    rewire: Annotated[
        bool, typer.Option("--rewire", help="Dependents drop the skipped stage.")
    ] = False,
    source: Source = None,
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: ExpectedVersion = None,
) -> None:
    """Propose a change; nothing changes until a person approves it."""
    options = write_options(dry_run, command_id, expected_version)
    given = (type_, stage, sets, unset, reason, description, insert, place, dependent)
    if source is not None and (rewire or any(value is not None for value in given)):
        raise InvalidOption("--from takes no other option of the proposal: the file holds them")
    asked = (
        proposal.read_proposal(source)
        if source is not None
        else proposal.Asked(
            kind=type_,
            stage=stage,
            reason=reason,
            description=description,
            settings=proposal.settings_of(sets or []),
            taken=tuple(unset or ()),
            insert=proposal.definition_of(insert) if insert is not None else None,
            place=place,
            rewire=list(dependent) if dependent else rewire,
        )
    )
    if not asked.reason:
        raise InvalidOption("a proposal says why: give --reason TEXT (in a file: reason)")
    with writing(context, dry_run) as (service, output):
        before = service.state()
        outcome = service.handle(proposal.command_of(before, asked), options=options)
        _tell_proposal(service, output, outcome, options)


def _tell_proposal(
    service: Service, output: Output, outcome: Outcome, options: WriteOptions
) -> None:
    amendment = _proposed(outcome)
    impact = _impact(service, service.state(), amendment)
    data = {
        "dry_run": options.dry_run,
        "repeated": outcome.repeated,
        "events": events_of(outcome, options),
        **foreseen(outcome, options),
        "amendment": _record(amendment),
        "impact": _impact_data(impact),
    }
    verb = "would propose" if options.dry_run else "proposed"
    lines = [f"{verb} {amendment.id} ({amendment.kind}, {words.where(amendment)})"]
    lines += [f"  {line}" for line in words.changes(amendment)]
    lines.append(f"impact: {'; '.join(words.consequences(impact))}")
    output.result(data, lambda: "\n".join(lines), state=outcome.state)


def _proposed(outcome: Outcome) -> Amendment:
    if outcome.events:
        return outcome.state.amendments[str(outcome.events[0].data["amendment"])]
    payload = outcome.planned[0][0]
    return of_proposal(payload_of(payload.type, payload.model_dump(mode="json")))  # type: ignore[arg-type]


def _impact(service: Service, state: Workflow, amendment: Amendment) -> Impact:
    kept = decisions.kept_folders(service.root.path, state)
    return impact_of(state, amendment, kept, utc_text(service.clock()))


def _impact_data(impact: Impact) -> dict[str, Any]:
    from service.consent import impact_digest

    return {**impact.to_dict(), "digest": impact_digest(impact)}


def _record(amendment: Amendment) -> dict[str, Any]:
    from service.consent import content_of

    return {
        **content_of(amendment),
        "status": amendment.status,
        "proposed_at": amendment.proposed_at,
        "decided_at": amendment.decided_at,
        "version": amendment.version,
        "approved_by": amendment.approved_by,
        "invalidated_stages": amendment.invalidated_stages,
    }


def approve(
    context: typer.Context,
    id_: Id,
    key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Sign with this SSH key (or its .pub).")
    ] = None,
    signature: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A signature of `amend show --statement`.")
    ] = None,
    impact: Annotated[
        str | None, typer.Option(metavar="DIGEST", help="Only if the impact is still this one.")
    ] = None,
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: ExpectedVersion = None,
) -> None:
    """Agree to an amendment, as a person, and carry it out."""
    options = write_options(dry_run, command_id, expected_version)
    with engine(context, dry_run) as (jobs, output):
        service = jobs.service
        if dry_run:
            tell(output, decisions.plan_approval(service, id_, options), options)
            return
        consenter = consenter_of(service.state().consent, service.actor, key, signature)
        outcome = decisions.approve(service, id_, consenter, options, impact)
        if outcome is None:
            _said_no(service, output, id_)
        else:
            stop_all(jobs)
            tell(output, outcome, options)


def _said_no(service: Service, output: Output, id_: str) -> None:
    options = WriteOptions()
    command = p.AmendmentRejected(amendment=id_, reason="n was typed at the terminal")
    tell(output, service.handle(command, options=options), options)
    raise typer.Exit(1)


def reject(
    context: typer.Context,
    id_: Id,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why not.")] = None,
    dry_run: DryRun = False,
    command_id: CommandId = None,
    expected_version: ExpectedVersion = None,
) -> None:
    """Close a proposal; nothing changes."""
    command = payload_of(p.AmendmentRejected.type, {"amendment": id_, "reason": reason})
    write(context, write_options(dry_run, command_id, expected_version), command)


def list_(
    context: typer.Context,
    state: Annotated[
        str | None, typer.Option(metavar="STATE", help="proposed, approved or rejected.")
    ] = None,
    at: At = None,
    known_at: KnownAt = None,
) -> None:
    """The amendments, in the order they were proposed."""
    with writing(context, dry_run=True) as (service, output):
        workflow = service.log.current(moment(at, known_at))
        found = [a for a in workflow.amendments.values() if state in (None, a.status)]
        lines = [
            f"{a.id:<9} {a.status:<9} {a.kind:<17} {words.where(a):<9} {a.description}"
            for a in found
        ]
        output.result(
            [_record(a) for a in found],
            lambda: "\n".join(lines) or "no amendments",
            state=workflow,
        )


def show(
    context: typer.Context,
    id_: Id,
    statement: Annotated[
        bool, typer.Option("--statement", help="Print only what is to be signed, byte for byte.")
    ] = False,
    at: At = None,
    known_at: KnownAt = None,
) -> None:
    """One amendment; while it is pending, with its impact."""
    view = moment(at, known_at)
    with writing(context, dry_run=True) as (service, output):
        state = service.log.current(view)
        amendment = state.amendments.get(id_)
        if amendment is None:
            raise UnknownAmendment(id_, list(state.amendments))
        if view is not None:
            _show_decided(output, state, amendment)
        elif statement:
            sys.stdout.write(decisions.question_of(service, id_).statement.decode())
        elif amendment.status == "proposed":
            _show_pending(output, decisions.question_of(service, id_))
        else:
            _show_decided(output, state, amendment)


def _show_pending(output: Output, question: decisions.Question) -> None:
    data = {
        "amendment": _record(question.amendment),
        "impact": _impact_data(question.impact),
        "head": {"version": question.state.head, "hash": question.head},
        "policy": question.state.consent,
    }
    tail = f"\nimpact digest {question.digest}, shown at version {question.state.head}"
    output.result(data, lambda: words.told(question) + tail, state=question.state)


def _show_decided(output: Output, state: Workflow, amendment: Amendment) -> None:
    lines = [
        f"{amendment.id} ({amendment.kind}, {words.where(amendment)}): {amendment.description}",
        *(f"  {line}" for line in words.changes(amendment)),
        f"reason: {amendment.reason or 'none given'}",
        f"{amendment.status} {amendment.decided_at or amendment.proposed_at}"
        + (f" by {amendment.approved_by}" if amendment.approved_by else ""),
        f"affected: {', '.join(amendment.invalidated_stages) or 'none'}",
    ]
    output.result({"amendment": _record(amendment)}, lambda: "\n".join(lines), state=state)
