"""Find the origin of a field's value: the event that set it, its author and its approval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from eventstore.event import RecordedEvent
from lifecycle.state.workflow import Workflow
from projections.files import document_paths, state_document
from projections.files.document_paths import ABSENT, Path
from projections.words.decisions import AmendmentRecord
from service.errors import NotFound
from service.questions.audit import list_amendment_records
from service.reading.log import WorkflowLog
from service.reading.stream_log import At

#: Fields of an event that can contain a reason, the most informative first.
_REASONS = ("reason", "error", "fix", "evidence", "detail", "text")
#: Fields of an event that can contain evidence.
_EVIDENCE = ("evidence", "checks", "facts", "outputs", "exit_code", "verdict", "kept_as", "source")


@dataclass(frozen=True, slots=True)
class FieldChange:
    """The newest change of a field: the event, the old value and the new value.

    ``cause`` is the version of the event that caused the change, if both were recorded together.
    """

    path: Path
    event: RecordedEvent
    old: Any
    new: Any
    cause: int | None


@dataclass(frozen=True, slots=True)
class Blame:
    """The newest change of a field, and the amendment that approved it, if any."""

    change: FieldChange
    amendment: AmendmentRecord | None

    @property
    def why(self) -> str | None:
        """Return the reason that was given for the change, or None."""
        if self.amendment is not None:
            return self.amendment.reason or self.amendment.description
        data = self.change.event.data
        return next((str(data[key]) for key in _REASONS if data.get(key)), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the change as JSON values. Times are in UTC."""
        change, event, agreed = self.change, self.change.event, self.amendment
        return {
            "field": document_paths.format_path(change.path),
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
            "database_user": agreed and agreed.database_user,
            "proof": event.data.get("proof"),
        }


def find_blame(log: WorkflowLog, name: str, at: At = None) -> list[Blame]:
    """Return the newest change of a field, or of each field in a group or stage.

    If a field was removed, this is the event that removed it. Raises `NotFound` for a field that
    never existed.
    """
    state = log.current(at)
    known = document_paths.build_tree(state_document.build_document(state))
    path = document_paths.parse_dotted_path(known, name)
    history = FieldHistory(path)
    for event, after in log.steps(upto=at):
        history.add_event(event, after)
    found = history.newest(known, name)
    named = any(amendment_of(change.event) for change in found)
    agreed = {record.id: record for record in list_amendment_records(log, at)} if named else {}
    return [Blame(change, agreed.get(amendment_of(change.event) or "")) for change in found]


def amendment_of(event: RecordedEvent) -> str | None:
    """Return the id of the amendment that an event approves or carries out, or None."""
    return event.data.get("amendment") or event.data.get("superseded_by")


class FieldHistory:
    """The newest change of every field at or below a path.

    The events must be given in order.
    """

    def __init__(self, path: Path) -> None:
        self.changes: dict[Path, FieldChange] = {}
        self._path = path
        self._part = b""
        self._value = b""
        self._command = ""
        self._ids: dict[str, int] = {}

    def newest(self, known: dict[str, Any], name: str) -> list[FieldChange]:
        """Return the newest changes of the existing fields.

        If no field exists any longer, return those of the removed fields. ``known`` contains all
        current fields. Raises `NotFound` if no field ever existed.
        """
        found = list(self.changes.values())
        if not found:
            there = document_paths.get_at_path(known, self._path[:-1])
            names = ", ".join(there if isinstance(there, dict) else known)
            raise NotFound(
                f"no version in the log has a field {name!r}. The existing fields are: {names}",
                field=name,
            )
        return [change for change in found if change.new is not ABSENT] or found

    def add_event(self, event: RecordedEvent, state: Workflow) -> None:
        """Process the next event. ``state`` is the state after the event."""
        self.add_value_text(event, self._encode_value(event, state))

    def add_value_text(self, event: RecordedEvent, spelling: bytes) -> None:
        """Process the next event.

        ``spelling`` is the JSON text of the value at the path after the event, or b'' for no value.
        """
        if event.command_id != self._command:
            self._command, self._ids = event.command_id, {}
        self._ids[event.event_id] = event.version
        before, self._value = self._value, spelling
        if before == self._value:
            return
        old, new = _parse_json(before), _parse_json(self._value)
        for path in dict(document_paths.iterate_leaves(old)) | dict(
            document_paths.iterate_leaves(new)
        ):
            self._compare(
                path,
                document_paths.get_at_path(old, path),
                document_paths.get_at_path(new, path),
                event,
            )

    def _compare(self, below: Path, old: Any, new: Any, event: RecordedEvent) -> None:
        if is_same_json(old, new):
            return
        path = self._path + below
        self.changes.pop(path, None)  # keeps the order of the changes
        if not (isinstance(new, dict) and new):
            cause = self._ids.get(event.causation_id or "")
            self.changes[path] = FieldChange(path, event, old, new, cause)

    def _encode_value(self, event: RecordedEvent, state: Workflow) -> bytes:
        """Return the JSON text of the value at the path, or b"" for no value."""
        name, *below = self._path
        part = state_document.get_document_part(state, name, ABSENT)
        if state.source is None:
            value = document_paths.get_at_path(part, tuple(below))
            return b"" if value is ABSENT else orjson.dumps(value)
        spelling = b"" if part is ABSENT else orjson.dumps(part)
        if spelling == self._part and event.type != "state.imported":
            return self._value
        self._part = spelling
        shown = document_paths.get_at_path(
            document_paths.build_tree(state_document.build_document(state)), self._path
        )
        return b"" if shown is ABSENT else orjson.dumps(shown)


def _parse_json(spelling: bytes) -> Any:
    return orjson.loads(spelling) if spelling else ABSENT


def is_same_json(old: Any, new: Any) -> bool:
    """Return whether two values have the same JSON text.

    The values 1, 1.0 and true all differ.
    """
    if old is ABSENT or new is ABSENT:
        return old is new
    return orjson.dumps(old) == orjson.dumps(new)
