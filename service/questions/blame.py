"""Who changed a field: the event that gave it its value, and all who had a part in that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from eventstore.event import RecordedEvent
from lifecycle.state.workflow import Workflow
from projections.files import document_diff, state_document
from projections.files.document_diff import ABSENT, Path
from projections.words.decisions import AmendmentRecord
from service.errors import NotFound
from service.questions.audit import records
from service.reading.log import WorkflowLog
from service.reading.stream_log import At

#: What an event may hold that says why, the most telling first.
_REASONS = ("reason", "error", "fix", "evidence", "detail", "text")
#: What an event may hold to prove it.
_EVIDENCE = ("evidence", "checks", "facts", "outputs", "exit_code", "verdict", "kept_as", "source")


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field's newest change: the event, the value before it, and the value since.

    ``cause`` is the version of the event that it followed from, in the same append.
    """

    path: Path
    event: RecordedEvent
    old: Any
    new: Any
    cause: int | None


@dataclass(frozen=True, slots=True)
class Blame:
    """A change with all who had a part in it."""

    change: FieldChange
    amendment: AmendmentRecord | None

    @property
    def why(self) -> str | None:
        """The reason that was given."""
        if self.amendment is not None:
            return self.amendment.reason or self.amendment.description
        data = self.change.event.data
        return next((str(data[key]) for key in _REASONS if data.get(key)), None)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; times are UTC."""
        change, event, agreed = self.change, self.change.event, self.amendment
        return {
            "field": document_diff.spelt(change.path),
            "value": change.new if change.new is not ABSENT else None,
            "is_there": change.new is not ABSENT,
            "old": change.old if change.old is not ABSENT else None,
            "was_there": change.old is not ABSENT,
            "version": event.version,
            "event_id": event.event_id,
            "type": event.type,
            "cause": change.cause,
            "occurred_at": event.occurred_at,
            "recorded_at": event.recorded_at,
            "actor": str(event.actor),
            "session": event.session,
            "why": self.why,
            "evidence": {k: v for k in _EVIDENCE if (v := event.data.get(k)) not in (None, [], {})},
            "amendment": agreed and agreed.id,
            "proposed_by": agreed and agreed.proposed_by,
            "proposed_at": agreed and agreed.proposed_at,
            "agreed_by": agreed and (agreed.signer or agreed.decided_by),
            "agreed_at": agreed and agreed.decided_at,
            "policy": agreed and agreed.policy,
            "proof": event.data.get("proof"),
        }


def blame(log: WorkflowLog, name: str, at: At = None) -> list[Blame]:
    """Return, for a field, a group of fields or a whole stage, each field's newest change.

    A field that is not there any more is blamed on what took it away. Raises `NotFound` for one
    that never was.
    """
    state = log.current(at)
    known = document_diff.tree(state_document.document(state))
    path = document_diff.path_of(known, name)
    history = FieldHistory(path)
    for event, after in log.steps(upto=at):
        history.see(event, after)
    found = history.newest(known, name)
    named = any(_amendment(change.event) for change in found)
    agreed = {record.id: record for record in records(log, at)} if named else {}
    return [Blame(change, agreed.get(_amendment(change.event) or "")) for change in found]


def _amendment(event: RecordedEvent) -> str | None:
    return event.data.get("amendment") or event.data.get("superseded_by")


class FieldHistory:
    """The newest change of every field below a path, as a history is gone through."""

    def __init__(self, path: Path) -> None:
        self.changes: dict[Path, FieldChange] = {}
        self._path = path
        self._part = b""
        self._value = b""
        self._command = ""
        self._ids: dict[str, int] = {}

    def newest(self, known: dict[str, Any], name: str) -> list[FieldChange]:
        """Return the changes of the fields that are there, else of all; ``known`` is all now."""
        found = list(self.changes.values())
        if not found:
            there = document_diff.at(known, self._path[:-1])
            names = ", ".join(there if isinstance(there, dict) else known)
            raise NotFound(f"no field {name!r} at any time; here are: {names}", field=name)
        return [change for change in found if change.new is not ABSENT] or found

    def see(self, event: RecordedEvent, state: Workflow) -> None:
        """Take in an event, with the state after it."""
        self.take(event, self._spelt(event, state))

    def take(self, event: RecordedEvent, spelling: bytes) -> None:
        """Take in an event, with what stands at the path after it as JSON; nothing: b''."""
        if event.command_id != self._command:
            self._command, self._ids = event.command_id, {}
        self._ids[event.event_id] = event.version
        before, self._value = self._value, spelling
        if before == self._value:
            return
        old, new = _read(before), _read(self._value)
        for path in dict(document_diff.leaves(old)) | dict(document_diff.leaves(new)):
            self._compare(path, document_diff.at(old, path), document_diff.at(new, path), event)

    def _compare(self, below: Path, old: Any, new: Any, event: RecordedEvent) -> None:
        if same(old, new):
            return
        path = self._path + below
        self.changes.pop(path, None)  # so that the order stays that of the changes
        if not (isinstance(new, dict) and new):
            cause = self._ids.get(event.causation_id or "")
            self.changes[path] = FieldChange(path, event, old, new, cause)

    def _spelt(self, event: RecordedEvent, state: Workflow) -> bytes:
        """Return what the document shows at the path as JSON, nothing if it shows nothing."""
        name, *below = self._path
        part = state_document.part(state, name, ABSENT)
        if state.source is None:
            value = document_diff.at(part, tuple(below))
            return b"" if value is ABSENT else orjson.dumps(value)
        spelling = b"" if part is ABSENT else orjson.dumps(part)
        if spelling == self._part and event.type != "state.imported":
            return self._value
        self._part = spelling
        shown = document_diff.at(document_diff.tree(state_document.document(state)), self._path)
        return b"" if shown is ABSENT else orjson.dumps(shown)


def _read(spelling: bytes) -> Any:
    return orjson.loads(spelling) if spelling else ABSENT


def same(old: Any, new: Any) -> bool:
    """Whether two values are written the same: 1, 1.0 and true are not."""
    if old is ABSENT or new is ABSENT:
        return old is new
    return orjson.dumps(old) == orjson.dumps(new)
