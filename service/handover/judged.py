"""Whether an event of an archive is one that a command could have recorded.

Its hash says that it was not changed since, not that it was ever harmless: a stranger's hashes fit.
"""

from __future__ import annotations

from typing import Any

import orjson
from pydantic import ValidationError

from eventstore.codec import Schema, canonical
from eventstore.envelope import fault
from eventstore.errors import EventStoreError
from lifecycle.payload.event_types import UPCASTERS, VERSIONS
from lifecycle.plan import document as plan
from lifecycle.plan import imported as imported_document
from lifecycle.rules.event_models import model_of
from lifecycle.words.misfit import problem

_SCHEMA = Schema(VERSIONS, UPCASTERS)
#: What an event's text holds: its place in the chain, what it is, and what stands around it.
_FIELDS = frozenset(
    [
        *("actor", "causation_id", "command_id", "correlation_id", "data", "event_id"),
        *("occurred_at", "prev_hash", "recorded_at", "schema_version", "session", "stream"),
        *("type", "utc_offset", "version"),
    ]
)
_IDS, _LONGEST_ID = ("event_id", "command_id", "causation_id", "correlation_id"), 300
#: Events with a whole document in them.
_TAKEN_OVER = ("workflow.imported", "state.imported")


def unacceptable(text: bytes) -> str | None:
    """Return why an event, by its text, is not taken; None where it is."""
    body = orjson.loads(text)
    wrong = _of_envelope(body)
    if wrong is not None:
        return wrong
    try:
        if canonical(body) != text:
            return "it is spelled otherwise than a log spells it"
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
    if set(body) != _FIELDS:
        return f"expected the fields of an event alone, found {sorted(set(body) ^ _FIELDS)!s:.80}"
    if not isinstance(body["actor"], dict) or set(body["actor"]) != {"kind", "name"}:
        return "actor: expected an object with a kind and a name, both text"
    if any(len(str(body[name])) > _LONGEST_ID for name in _IDS):
        return f"an id of the envelope: expected {_LONGEST_ID} characters at most"
    return fault(body)


def _of_created(document: dict[str, Any], stream: str) -> str | None:
    wrong = plan.definition_problems(document)
    if not wrong and stream != f"workflow-{document['workflow_id']}":
        wrong = [f"the workflow of {stream} calls itself {document['workflow_id']!r:.80}"]
    return f"workflow.created: {wrong[0]}" if wrong else None


def _of_taken_over(document: dict[str, Any]) -> str | None:
    wrong = imported_document.problems(document)
    return f"the document that was taken over: {wrong[0][0]}: {wrong[0][1]}" if wrong else None
