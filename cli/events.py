"""``wfctl events``, ``fsck`` and ``schema``: the log as it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Annotated, Any

import typer

from cli import selection as chosen
from cli.failure import FINDINGS
from cli.options import At, KnownAt
from cli.output import Output
from cli.workspace import Reading, moment, reading, settings_of, standing
from eventstore.event import RecordedEvent
from eventstore.subscription import subscribed
from service.errors import InvalidOption
from service.integrity import check_integrity
from service.machines.integrity import check_machines
from service.machines.log import PREFIX
from service.moment import Moment, parse_moment
from service.selection import Selection


def events(
    context: typer.Context,
    type_: chosen.Type = None,
    stage: chosen.OfStage = None,
    session: chosen.OfSession = None,
    status: chosen.ToStatus = None,
    amendment: chosen.OfAmendment = None,
    since: chosen.Since = None,
    until: chosen.Until = None,
    grep: chosen.Grep = None,
    at: At = None,
    known_at: KnownAt = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many.")] = None,
    fields: chosen.Fields = None,
    template: chosen.Template = None,
    reverse: chosen.Reverse = False,
    follow: chosen.Follow = False,
    machine: Annotated[
        str | None, typer.Option(metavar="ID", help="Those of a phase machine.")
    ] = None,
) -> None:
    """Print the recorded events; with --actor KIND or KIND:NAME only those of one actor."""
    if follow:
        endless({"--reverse": reverse, "--at": at, "--known-at": known_at})
    with reading(context) as root:
        workflow = root if machine is None else of_machine(root, machine)
        wanted = Selection(
            types=tuple(type_ or ()),
            stages=tuple(stage or ()),
            actor=settings_of(context).actor,
            session=session,
            status=status,
            amendment=amendment,
            since=bound(workflow, since),
            until=bound(workflow, until),
        )
        view = moment(at, known_at)
        found = recorded(workflow, follow) if view is None else _seen(workflow, view, machine)
        records = chosen.matching((_record(e) for e in found if wanted.fits(e)), grep)
        shown = chosen.newest_first(records, limit) if reverse else islice(records, limit)
        shape = chosen.shape_of(workflow.output, fields, template)
        shape.print(workflow.output, shown, _line, view)


def of_machine(root: Reading, machine: str) -> Reading:
    """Return the root with the log of a machine; raises `StateNotFound`."""
    from service.log import WorkflowLog
    from service.machines.log import MachineLog

    log = MachineLog(root.log.store, machine, root.root.path)
    log.current()
    output = Output(root.output.settings, partial(standing, log, None))
    return replace(root, log=WorkflowLog(log.store, log.stream, root.root.path), output=output)


def _seen(workflow: Reading, view: Moment, machine: str | None) -> Iterator[RecordedEvent]:
    if machine is None:
        return workflow.log.events(view)
    workflow.log.require(view.version)
    return view.seen(workflow.log.store.read(workflow.log.stream, upto=view.version))


def endless(others: dict[str, object]) -> None:
    """Raise `InvalidOption` where an option was given that needs an end, which none comes to."""
    given = [name for name, value in others.items() if value]
    if given:
        raise InvalidOption(f"--follow has no end, which {' and '.join(given)} would need")


def bound(workflow: Reading, text: str | None) -> Moment | None:
    """Return an end of a range; that of a session is its last version."""
    return workflow.log.resolved(parse_moment(text)) if text is not None else None


def recorded(workflow: Reading, follow: bool) -> Iterator[RecordedEvent]:
    """Return the recorded events, and with ``follow`` those to come."""
    store, stream = workflow.log.store, workflow.log.stream
    return subscribed(store, stream=stream) if follow else store.read(stream)


def _record(event: RecordedEvent) -> dict[str, Any]:
    return {**event.body, "hash": event.hash, "position": event.position}


def _line(record: dict[str, Any]) -> str:
    data = record["data"]
    stage = data.get("stage") or ""
    actor = record["actor"]
    who = f"{actor['kind']}:{actor['name']}" if isinstance(actor, dict) else str(actor)
    when = f"{record['recorded_at'][:19]}Z"
    return f"v{record['version']:<4} {when} {record['type']:<20} {stage:<9} {who}"


def fsck(context: typer.Context) -> None:
    """Check the chain, the order, and that every event can be decoded (exit 7)."""
    with reading(context) as workflow:
        head = workflow.log.store.head(workflow.log.stream)  # what is appended later is checked too
        machines, theirs = check_machines(workflow.root, workflow.log.store)
        found = [*check_integrity(workflow.root, workflow.log), *theirs]
        findings = [finding._asdict() for finding in found]
        version = head.version if head is not None else 0
        text = "\n".join(map(_finding, findings))
        clean = f"clean: {version} events, chain whole" if version else "clean: no events"
        told = [clean, *(f"clean: {id_}: {n} events, chain whole" for id_, n in machines.items())]
        data = {
            "events": version,
            "head": head.hash if head else None,
            "findings": findings,
            "machines": machines,
        }
        workflow.output.result(data, lambda: text or "\n".join(told))
    if findings:
        raise typer.Exit(FINDINGS)


def _finding(finding: dict[str, Any]) -> str:
    stream = str(finding["stream"] or "")
    machine = f"{stream}: " if stream.startswith(PREFIX) else ""
    return f"{machine}version {finding['version']}: {finding['kind']}: {finding['message']}"


def schema(
    context: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[TYPE]", help="An event type, or event, state, answer."),
    ] = None,
) -> None:
    """Print the JSON Schema of an event's data, an event, the state, an answer; or of all."""
    from lifecycle.errors import UnknownEventType
    from projections.schemas import schemas

    every = schemas()
    if name is not None and name not in every:
        raise UnknownEventType(name, sorted(every))
    shown = every[name] if name is not None else every
    output = Output(settings_of(context))
    output.result(shown, lambda: _indented(shown))


def _indented(value: Any) -> str:
    import json

    return json.dumps(value, indent=2)
