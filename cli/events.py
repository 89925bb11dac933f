"""``wfctl events``, ``fsck`` and ``schema``: the log as it is."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Any

import typer

from cli.failure import FINDINGS
from cli.options import At
from cli.workspace import Reading, reading, settings_of
from eventstore.event import RecordedEvent
from service.integrity import check_integrity
from service.moment import Moment, parse_moment

#: Seconds between two looks of ``--follow``.
_FOLLOW_EVERY = 0.2


def events(
    context: typer.Context,
    type_: Annotated[str | None, typer.Option("--type", help="Only this type.")] = None,
    stage: Annotated[str | None, typer.Option(help="Only this stage.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="VERSION|TIME", help="Only after this.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="VERSION|TIME", help="Only up to this.")
    ] = None,
    at: At = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many.")] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on as events are appended.")] = False,
) -> None:
    """Print the recorded events; with --actor KIND or KIND:NAME only those of one actor."""
    actor = settings_of(context).actor
    with reading(context) as workflow:
        wanted = _Filter(type_, stage, actor, _moment(since), _moment(until or at))
        found = islice(wanted.apply(_read(workflow, follow)), limit)
        workflow.output.records(map(_record, found), _line)


class _Filter:
    """Which events are asked for."""

    def __init__(
        self,
        type_: str | None,
        stage: str | None,
        actor: str | None,
        since: Moment | None,
        until: Moment | None,
    ) -> None:
        self.type = type_
        self.stage = stage
        self.actor = actor
        self.since = since
        self.until = until

    def apply(self, events: Iterator[RecordedEvent]) -> Iterator[RecordedEvent]:
        """Yield the events that fit."""
        return (event for event in events if self._fits(event))

    def _fits(self, event: RecordedEvent) -> bool:
        kind, name = event.actor
        return (
            self.type in (None, event.type)
            and self.stage in (None, event.data.get("stage"))
            and self.actor in (None, kind, f"{kind}:{name}")
            and (self.since is None or _position(event, self.since) > self.since)  # type: ignore[operator]
            and (self.until is None or _position(event, self.until) <= self.until)  # type: ignore[operator]
        )


def _position(event: RecordedEvent, moment: Moment) -> Moment:
    return event.version if isinstance(moment, int) else event.occurred_at


def _moment(text: str | None) -> Moment | None:
    return parse_moment(text) if text is not None else None


def _read(workflow: Reading, follow: bool) -> Iterator[RecordedEvent]:
    after = 0
    while True:
        for event in workflow.log.store.read(workflow.log.stream, after=after):
            after = event.version
            yield event
        if not follow:
            return
        time.sleep(_FOLLOW_EVERY)


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
        findings = [finding._asdict() for finding in check_integrity(workflow.root, workflow.log)]
        head = workflow.log.store.head(workflow.log.stream)
        version = head.version if head is not None else 0
        text = "\n".join(f"version {f['version']}: {f['kind']}: {f['message']}" for f in findings)
        clean = f"clean: {version} events, chain whole" if version else "clean: no events"
        data = {"events": version, "head": head.hash if head else None, "findings": findings}
        workflow.output.result(data, lambda: text or clean)
    if findings:
        raise typer.Exit(FINDINGS)


def schema(
    context: typer.Context,
    type_: Annotated[str | None, typer.Argument(metavar="[TYPE]", help="Event type.")] = None,
) -> None:
    """Print the JSON Schema of an event's data, or of every one."""
    from cli.output import Output
    from lifecycle.errors import UnknownEventType
    from lifecycle.payload import PAYLOADS

    if type_ is not None and type_ not in PAYLOADS:
        raise UnknownEventType(type_, sorted(PAYLOADS))
    wanted = [PAYLOADS[type_]] if type_ is not None else list(PAYLOADS.values())
    schemas = {model.type: model.model_json_schema() for model in wanted}
    shown = schemas[type_] if type_ is not None else schemas
    output = Output(settings_of(context))
    output.result(shown, lambda: _indented(shown))


def _indented(value: Any) -> str:
    import json

    return json.dumps(value, indent=2)
