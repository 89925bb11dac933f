"""``otel``: OpenTelemetry traces as OTLP JSON, one span a line (the file exporter's form).

A trace is a workflow; its spans are the workflow, its sessions, each run of a stage, its attempts,
and amendments from proposal to decision. Ids are cut from the hashes of the events that began them,
so that a second export is identical. What has not ended ends with the log, as ``wfctl.open``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any

from eventstore.event import RecordedEvent
from lifecycle.state.status import ACTIVE, Status
from lifecycle.state.workflow import Workflow
from projections.exports.formats import ExportSource, amended_by, touched

_TRACE, _SPAN = 32, 16
_INTERNAL = 1
_OK, _ERROR = 1, 2
#: The default limit of OpenTelemetry's own libraries.
_EVENTS = 128

_NOTED = frozenset(
    {"stage.launched", "attempt.observed", "attempt.relaunched", "checkpoint.recorded"}
)


@dataclass(slots=True)
class _Span:
    id: str
    parent: str
    name: str
    start: str
    attributes: dict[str, Any]
    events: list[dict[str, Any]] = field(default_factory=list)
    dropped: int = 0


def export(source: ExportSource) -> Iterator[str]:
    """Yield the spans as they end, the workflow's own last."""
    tracer = _Tracer()
    for event, state in source.steps():
        for span in tracer.add(event, state):
            yield tracer.line(span)
    for span in tracer.rest(source.state()):
        yield tracer.line(span)


class _Tracer:
    """Opens and ends spans event by event. A key names what a span is of."""

    def __init__(self) -> None:
        self._open: dict[str, _Span] = {}
        self._trace = self._last = ""
        self._run: dict[str, Status] = {}

    def add(self, event: RecordedEvent, state: Workflow) -> Iterator[dict[str, Any]]:
        """Take in an event; yield the spans that it ends."""
        self._last = max(self._last, event.occurred_at)
        if not self._trace:
            self._trace = event.hash[:_TRACE]
            self._begin("workflow", "", state.id, event, {"wfctl.workflow": state.id})
        yield from self._sessions(event)
        yield from self._amendments(event, state)
        yield from self._stages(event, state)

    def _sessions(self, event: RecordedEvent) -> Iterator[dict[str, Any]]:
        if event.type in ("session.started", "session.ended"):
            yield from self._end("session", event.occurred_at)
        if event.type == "session.started":
            self._begin("session", "workflow", f"session {event.data['number']}", event)

    def _amendments(self, event: RecordedEvent, state: Workflow) -> Iterator[dict[str, Any]]:
        amendment, is_new = amended_by(event, state) or (None, False)
        if amendment is None:
            return
        key = f"amendment {amendment.id}"
        if is_new and key not in self._open:
            self._begin(key, "workflow", f"{amendment.id} {amendment.kind}", event)
        elif not is_new:
            decided = {"wfctl.decision": amendment.status, "wfctl.decided_by": str(event.actor)}
            yield from self._end(key, event.occurred_at, decided)

    def _stages(self, event: RecordedEvent, state: Workflow) -> Iterator[dict[str, Any]]:
        for id_ in touched(event, state):
            if state.stages[id_].status is not self._run.get(id_):
                yield from self._turn(event, state, id_)
            if id_ == event.data.get("stage"):
                yield from self._attempt(event, state, id_)

    def _turn(self, event: RecordedEvent, state: Workflow, id_: str) -> Iterator[dict[str, Any]]:
        """The status of a stage changed: a run begins or ends."""
        stage = state.stages[id_]
        self._run[id_] = stage.status
        if stage.status in ACTIVE:
            if id_ not in self._open:
                self._begin(id_, "workflow", f"{id_} {stage.name}", event, {"wfctl.stage": id_})
            return
        yield from self._attempt_end(event, state, id_)
        told = {"wfctl.status": stage.status.value}
        yield from self._end(id_, event.occurred_at, told, stage.error)

    def _attempt(self, event: RecordedEvent, state: Workflow, id_: str) -> Iterator[dict[str, Any]]:
        key = f"{id_} attempt"
        if event.type == "attempt.started":
            yield from self._end(key, event.occurred_at, {"wfctl.outcome": "lost"}, "lost")
            told = {"wfctl.stage": id_, "wfctl.attempt": event.data["attempt"]}
            self._begin(key, id_, event.data["attempt"], event, told)
        elif event.type in _NOTED and key in self._open:
            self._note(self._open[key], event)
        elif event.type == "stage.computed":
            yield from self._attempt_end(event, state, id_)

    def _attempt_end(
        self, event: RecordedEvent, state: Workflow, id_: str
    ) -> Iterator[dict[str, Any]]:
        stage = state.stages[id_]
        attempt = stage.attempt
        told: dict[str, Any] = {}
        if attempt is not None:
            told = {"wfctl.outcome": attempt.outcome, "wfctl.exit_code": attempt.exit_code}
        yield from self._end(f"{id_} attempt", event.occurred_at, told, stage.error)

    def _begin(
        self,
        key: str,
        parent: str,
        name: str,
        event: RecordedEvent,
        more: dict[str, Any] | None = None,
    ) -> None:
        above = self._open.get(parent)
        # One event may begin the spans of several stages.
        id_ = sha256(f"{event.hash} {key}".encode()).hexdigest()[:_SPAN]
        told = {"wfctl.actor": str(event.actor), "wfctl.version": event.version, **(more or {})}
        self._open[key] = _Span(id_, above.id if above else "", name, event.occurred_at, told)

    def _end(
        self, key: str, at: str, more: dict[str, Any] | None = None, error: str | None = None
    ) -> Iterator[dict[str, Any]]:
        span = self._open.pop(key, None)
        if span is None:
            return
        status = {"code": _ERROR, "message": error} if error else {"code": _OK}
        yield {
            "traceId": self._trace,
            "spanId": span.id,
            "parentSpanId": span.parent,
            "name": span.name,
            "kind": _INTERNAL,
            "startTimeUnixNano": _nanoseconds(span.start),
            "endTimeUnixNano": _nanoseconds(max(span.start, at)),
            "attributes": _attributes({**span.attributes, **(more or {})}),
            "events": span.events,
            "droppedEventsCount": span.dropped,
            "status": status,
        }

    def _note(self, span: _Span, event: RecordedEvent) -> None:
        if len(span.events) >= _EVENTS:
            span.dropped += 1
            return
        told = {key: event.data.get(key) for key in ("verdict", "reason", "session", "job_ids")}
        span.events.append(
            {
                "timeUnixNano": _nanoseconds(event.occurred_at),
                "name": event.type,
                "attributes": _attributes(told),
            }
        )

    def rest(self, state: Workflow) -> Iterator[dict[str, Any]]:
        """Yield what has not ended, the innermost first."""
        is_open = {"wfctl.open": True}
        for key in reversed([key for key in self._open if key != "workflow"]):
            yield from self._end(key, self._last, is_open)
        done = state.workflow_status == "completed"
        yield from self._end("workflow", self._last, None if done else is_open)

    def line(self, span: dict[str, Any]) -> str:
        """Return one request of the OTLP: a span with where it comes from."""
        resource = {"attributes": _attributes({"service.name": "wfctl"})}
        scope = {"scope": {"name": "wfctl"}, "spans": [span]}
        request = {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}
        return json.dumps(request, ensure_ascii=False, separators=(",", ":")) + "\n"


def _nanoseconds(moment: str) -> str:
    """Return a time of the log as OTLP has it: nanoseconds since 1970, as text."""
    whole = datetime.fromisoformat(moment)
    return str(int(whole.replace(microsecond=0).timestamp()) * 10**9 + whole.microsecond * 1000)


def _attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Return attributes of the OTLP; those without a value are left out."""
    return [{"key": key, "value": _value(v)} for key, v in values.items() if v is not None]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(item) for item in value]}}
    return {"stringValue": str(value)}
