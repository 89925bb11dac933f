"""``otel``: OpenTelemetry traces as OTLP JSON, one span a line (the file exporter's form).

A trace is a workflow; its spans are the workflow, its sessions, each run of a stage, its attempts,
and amendments from proposal to decision. Ids are cut from the hashes of the events that began them,
so that a second export is identical. What has not ended ends with the log, as ``wfctl.open``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
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


def export(source: ExportSource) -> Iterator[str]:
    """Yield the spans as they end, the workflow's own last."""
    tracer = _Tracer()
    for event, state in source.steps():
        yield from tracer.add(event, state)
    yield from tracer.rest(source.state())


class _Tracer:
    """Opens and ends spans event by event. A key names what a span is of."""

    def __init__(self) -> None:
        self._open: dict[str, dict[str, Any]] = {}
        self._trace = self._last = ""
        self._run: dict[str, Status] = {}

    def add(self, event: RecordedEvent, state: Workflow) -> Iterator[str]:
        self._last = max(self._last, event.occurred_at)
        if not self._trace:
            self._trace = event.hash[:_TRACE]
            self._begin("workflow", "", state.id, event, workflow=state.id)
        if event.type in ("session.started", "session.ended"):
            yield from self._end("session", event.occurred_at)
        if event.type == "session.started":
            self._begin("session", "workflow", f"session {event.data['number']}", event)
        yield from self._amendments(event, state)
        for id_ in touched(event, state):
            if state.stages[id_].status is not self._run.get(id_):
                yield from self._turn(event, state, id_)
            if id_ == event.data.get("stage"):
                yield from self._attempt(event, state, id_)

    def _amendments(self, event: RecordedEvent, state: Workflow) -> Iterator[str]:
        amendment, is_new = amended_by(event, state) or (None, False)
        if amendment is None:
            return
        key, at = f"amendment {amendment.id}", event.occurred_at
        if is_new and key not in self._open:
            self._begin(key, "workflow", f"{amendment.id} {amendment.kind}", event)
        elif not is_new:
            by = str(event.actor)
            yield from self._end(key, at, decision=amendment.status, decided_by=by)

    def _turn(self, event: RecordedEvent, state: Workflow, id_: str) -> Iterator[str]:
        """The status of a stage changed: a run begins or ends."""
        stage = state.stages[id_]
        self._run[id_] = stage.status
        if stage.status not in ACTIVE:
            yield from self._attempt_end(event, state, id_)
            yield from self._end(id_, event.occurred_at, stage.error, status=stage.status.value)
        elif id_ not in self._open:
            self._begin(id_, "workflow", f"{id_} {stage.name}", event, stage=id_)

    def _attempt(self, event: RecordedEvent, state: Workflow, id_: str) -> Iterator[str]:
        key = f"{id_} attempt"
        if event.type == "attempt.started":
            yield from self._end(key, event.occurred_at, "lost", outcome="lost")
            attempt = event.data["attempt"]
            self._begin(key, id_, attempt, event, stage=id_, attempt=attempt)
        elif event.type in _NOTED and (span := self._open.get(key)) is not None:
            if len(span["events"]) >= _EVENTS:
                span["droppedEventsCount"] += 1
                return
            names = ("verdict", "reason", "session", "job_ids")
            at, noted = _nanoseconds(event.occurred_at), {one: event.data.get(one) for one in names}
            told = {"timeUnixNano": at, "name": event.type, "attributes": _attributes(noted)}
            span["events"].append(told)
        elif event.type == "stage.computed":
            yield from self._attempt_end(event, state, id_)

    def _attempt_end(self, event: RecordedEvent, state: Workflow, id_: str) -> Iterator[str]:
        stage, attempt = state.stages[id_], state.stages[id_].attempt
        outcome = attempt.outcome if attempt is not None else None
        exit_code = attempt.exit_code if attempt is not None else None
        told = {"outcome": outcome, "exit_code": exit_code}
        yield from self._end(f"{id_} attempt", event.occurred_at, stage.error, **told)

    def _begin(self, key: str, parent: str, name: str, event: RecordedEvent, **more: Any) -> None:
        # One event may begin the spans of several stages.
        id_ = sha256(f"{event.hash} {key}".encode()).hexdigest()[:_SPAN]
        self._open[key] = {
            "traceId": self._trace,
            "spanId": id_,
            "parentSpanId": self._open[parent]["spanId"] if parent in self._open else "",
            "name": name,
            "kind": _INTERNAL,
            "startTimeUnixNano": _nanoseconds(event.occurred_at),
            "endTimeUnixNano": "",
            "attributes": _own({"actor": str(event.actor), "version": event.version, **more}),
            "events": [],
            "droppedEventsCount": 0,
        }

    def _end(self, key: str, at: str, error: str | None = None, **more: Any) -> Iterator[str]:
        """Yield one request of the OTLP: a span with where it comes from."""
        span = self._open.pop(key, None)
        if span is None:
            return
        span["endTimeUnixNano"] = max(span["startTimeUnixNano"], _nanoseconds(at), key=int)
        span["attributes"] += _own(more)
        span["status"] = {"code": _ERROR, "message": error} if error else {"code": _OK}
        resource = {"attributes": _attributes({"service.name": "wfctl"})}
        scope = {"scope": {"name": "wfctl"}, "spans": [span]}
        request = {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}
        yield json.dumps(request, ensure_ascii=False, separators=(",", ":")) + "\n"

    def rest(self, state: Workflow) -> Iterator[str]:
        """Yield what has not ended, the innermost first."""
        for key in reversed([key for key in self._open if key != "workflow"]):
            yield from self._end(key, self._last, open=True)
        is_open = None if state.workflow_status == "completed" else True
        yield from self._end("workflow", self._last, open=is_open)


def _nanoseconds(moment: str) -> str:
    """Return a time of the log as OTLP has it: nanoseconds since 1970, as text."""
    whole = datetime.fromisoformat(moment)
    return str(int(whole.replace(microsecond=0).timestamp()) * 10**9 + whole.microsecond * 1000)


def _attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Return attributes of the OTLP; those without a value are left out."""
    return [{"key": key, "value": _value(v)} for key, v in values.items() if v is not None]


def _own(values: dict[str, Any]) -> list[dict[str, Any]]:
    return _attributes({f"wfctl.{name}": value for name, value in values.items()})


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(item) for item in value]}}
    return {"stringValue": str(value)}
