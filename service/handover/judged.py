"""Whether an event of an archive is one that a command could have recorded.

Its hash says that it was not changed since, not that it was ever harmless: a stranger's hashes fit.
"""

from __future__ import annotations

import json
from datetime import datetime
from types import NoneType
from typing import Any

from pydantic import ValidationError

from eventstore.codec import Schema
from eventstore.errors import EventStoreError
from lifecycle.payload.event_types import UPCASTERS, VERSIONS
from lifecycle.plan import document as plan
from lifecycle.plan import imported as imported_document
from lifecycle.rules.schema import model_of
from lifecycle.words.misfit import problem

_SCHEMA = Schema(VERSIONS, UPCASTERS)
_TEXT, _TEXT_OR_NULL = ((str,), "text"), ((str, NoneType), "text or null")
#: What stands around an event's data.
_ENVELOPE: dict[str, tuple[tuple[type, ...], str]] = {
    **dict.fromkeys(("event_id", "command_id", "stream", "type"), _TEXT),
    **dict.fromkeys(("recorded_at", "occurred_at", "utc_offset"), _TEXT),
    **dict.fromkeys(("causation_id", "correlation_id"), _TEXT_OR_NULL),
    "session": ((int, NoneType), "a number or null"),
    "schema_version": ((int,), "a number"),
    "data": ((dict,), "an object"),
}
_IDS, _LONGEST_ID = ("event_id", "command_id", "causation_id", "correlation_id"), 300
#: Events with a whole document in them.
_TAKEN_OVER = ("workflow.imported", "state.imported")


def unacceptable(text: bytes) -> str | None:
    """Return why an event, by its text, is not taken; None where it is."""
    wrong = _of_envelope(json.loads(text))
    if wrong is not None:
        return wrong
    try:
        event = _SCHEMA.decode(0, "", text)
    except EventStoreError as error:
        return error.message
    try:
        model_of(event.type).of(event.data)
    except ValidationError as error:
        return f"{event.type}: {problem(error.errors()[0])}"
    if event.type == "workflow.created":
        return _of_created(event.data["document"], event.stream)
    if event.type in _TAKEN_OVER:
        return _of_taken_over(event.data["document"])
    return None


def _of_envelope(body: dict[str, Any]) -> str | None:
    """Return which field of the envelope is not what a log writes there."""
    actor = body.get("actor")
    parts = actor if isinstance(actor, dict) else {}
    if set(parts) != {"kind", "name"} or not all(isinstance(p, str) for p in parts.values()):
        return "actor: expected an object with a kind and a name, both text"
    for name, (kinds, expected) in _ENVELOPE.items():
        if type(body.get(name)) not in kinds:
            return f"{name}: expected {expected}, found {body.get(name)!r:.80}"
    if any(len(str(body[name])) > _LONGEST_ID for name in _IDS):
        return f"an id of the envelope: expected {_LONGEST_ID} characters at most"
    try:
        moments = [datetime.fromisoformat(body[name]) for name in ("recorded_at", "occurred_at")]
    except ValueError:
        return "recorded_at or occurred_at: expected a time in ISO 8601"
    return None if all(m.tzinfo for m in moments) else "a time: expected one with its offset"


def _of_created(document: dict[str, Any], stream: str) -> str | None:
    wrong = plan.definition_problems(document)
    if not wrong and stream != f"workflow-{document['workflow_id']}":
        wrong = [f"the workflow of {stream} calls itself {document['workflow_id']!r:.80}"]
    return f"workflow.created: {wrong[0]}" if wrong else None


def _of_taken_over(document: dict[str, Any]) -> str | None:
    wrong = imported_document.problems(document)
    return f"the document that was taken over: {wrong[0][0]}: {wrong[0][1]}" if wrong else None
