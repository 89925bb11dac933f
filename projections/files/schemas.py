"""JSON Schemas (draft 2020-12) of the data that wfctl writes: events, state, answers.

The schema ``event`` describes an event as `wfctl events` and `wfctl export events` write it, with
the data of its type. New versions of wfctl may add event types and fields, so readers must accept
unknown ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lifecycle.payload.event_types import STAGED, VERSIONS
from lifecycle.state.status import Status
from lifecycle.words.document import STAGE_FIELDS, WORKFLOW_FIELDS
from projections.files.event_models import find_event_model
from projections.words.text import schema_uri
from wfctl_eventstore.extension import is_installed

DIALECT = "https://json-schema.org/draft/2020-12/schema"
Document = dict[str, Any]

_TEXT: Document = {"type": "string"}
_OBJECT: Document = {"type": "object"}
_TEXTS: Document = {"type": "array", "items": _TEXT}
_COUNT: Document = {"type": "integer", "minimum": 0}
_OPTIONAL: Document = {"type": ["string", "null"]}
_HASH: Document = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
#: Schema of a UTC time with microseconds.
_MOMENT: Document = {
    "type": "string",
    "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z$",
}


def load_schemas() -> dict[str, Document]:
    """Return every schema by its name.

    The name is an event type, or ``event``, ``state``, ``answer`` or ``plan``.
    """
    types = [name for name in VERSIONS if name in STAGED or is_installed("machines")]
    every = {name: find_schema(name) for name in (*types, *_WHOLES)}
    return {name: found for name, found in every.items() if found is not None}


def find_schema(name: str) -> Document | None:
    """Return the schema with this name, or None if it does not exist."""
    if name in VERSIONS:
        body = find_event_model(name).model_json_schema()
        return add_schema_uri_and_title(name, body.pop("title"), body)
    return _WHOLES[name][0]() if name in _WHOLES else None


def describe_schema(name: str, schema: Document) -> str:
    """Return a one-line description of a schema."""
    told = _WHOLES[name][1] if name in _WHOLES else schema.get("description")
    if name == "definition":
        told = "the definition for `wfctl machine init --definition`"
    if told is None:
        of, _, what = name.partition(".")
        told = f"the state of a {of}" if what == "state" else f"the data of {what} of a {of}"
    return str(told).split(". ")[0].split("\n")[0].rstrip(".").replace("``", "`")


def add_schema_uri_and_title(name: str, title: str, body: Document) -> Document:
    """Return a schema with its URI and its title added."""
    head = {"$schema": DIALECT, "$id": schema_uri(name, VERSIONS.get(name, 1)), "title": title}
    return {**head, **body}


def _build_object_schema(properties: Document, required: list[str] | None = None) -> Document:
    needed = list(properties) if required is None else required
    return {"type": "object", "required": needed, "properties": properties}


def _build_event_schema() -> Document:
    kinds = ["user", "agent", "reconciler", "runner", "import"]
    actor = _build_object_schema({"kind": {"enum": kinds}, "name": _TEXT})
    properties = {
        "event_id": _TEXT,
        "stream": _TEXT,
        "version": {"type": "integer", "minimum": 1},
        "position": {"type": "integer", "minimum": 1},
        "type": {"enum": list(VERSIONS)},
        "schema_version": {"type": "integer", "minimum": 1},
        "data": _OBJECT,
        "actor": actor,
        "session": {"type": ["integer", "null"]},
        "command_id": _TEXT,
        "causation_id": _OPTIONAL,
        "correlation_id": _OPTIONAL,
        "occurred_at": _MOMENT,
        "recorded_at": _MOMENT,
        "utc_offset": {"type": "string", "pattern": "^[+-][0-9]{2}:[0-9]{2}$"},
        "prev_hash": _HASH,
        "hash": _HASH,
    }
    body = {**_build_object_schema(properties), "additionalProperties": False}
    return add_schema_uri_and_title(
        "event", "RecordedEvent", {**body, "allOf": [_build_event_data_rule(t) for t in VERSIONS]}
    )


def _build_event_data_rule(type_: str) -> Document:
    """Return the schema rule that an event of this type has the data of this type."""
    version = VERSIONS[type_]
    kind = {"type": {"const": type_}, "schema_version": {"const": version}}
    return {
        "if": {"properties": kind},
        "then": {"properties": {"data": {"$ref": schema_uri(type_, version)}}},
    }


def _build_state_schema() -> Document:
    known = {
        **dict.fromkeys(WORKFLOW_FIELDS, _OPTIONAL),
        "workflow_id": _TEXT,
        "version": _COUNT,
        "amendments": {"type": "array", "items": _OBJECT},
        "session_config": _OBJECT,
        "default_backend": _TEXT,
        "backend_profiles": {"type": "object", "additionalProperties": _OBJECT},
        "stages": {"type": "array", "items": _build_stage_schema()},
    }
    return add_schema_uri_and_title(
        "state", "WorkflowState", _build_object_schema(known, ["workflow_id", "stages"])
    )


def _build_stage_schema() -> Document:
    known = {
        **dict.fromkeys(STAGE_FIELDS, _OPTIONAL),
        **dict.fromkeys(("id", "name", "success_criteria"), _TEXT),
        **dict.fromkeys(("depends_on", "inputs", "outputs"), _TEXTS),
        "status": {"enum": [status.value for status in Status]},
        "parameters": _OBJECT,
        "retry_count": _COUNT,
        "running_process": {"type": ["object", "null"]},
        "checkpoint": True,
    }
    return _build_object_schema(known, ["id", "name", "status"])


def _build_plan_schema() -> Document:
    """Return the JSON Schema of a plan for `wfctl init`, with a description of each field."""
    from lifecycle.plan.fields import WORDS_OF_STAGE, WORDS_OF_WORKFLOW

    stage = _build_closed_schema(
        WORDS_OF_STAGE, _build_stage_schema()["properties"], ["id", "name"]
    )
    known = {
        **_build_state_schema()["properties"],
        "purpose": _TEXT,
        "parameters": {
            "type": "object",
            "additionalProperties": {"type": ["string", "number", "boolean"]},
        },
        "stages": {"type": "array", "minItems": 1},
    }
    whole = _build_closed_schema(WORDS_OF_WORKFLOW, known, ["workflow_id", "stages"])
    whole["properties"]["stages"]["items"] = stage
    return add_schema_uri_and_title("plan", "Plan", whole)


def _build_closed_schema(words: dict[str, str], known: Document, needed: list[str]) -> Document:
    """Return the schema of an object with a fixed set of fields.

    Other fields are allowed only if their name starts with ``x-``. ``needed`` names required
    fields.
    """
    properties = {
        name: {**known.get(name, {}), "description": text} for name, text in words.items()
    }
    closed = {"patternProperties": {"^x-": True}, "additionalProperties": False}
    return {**_build_object_schema(properties, needed), **closed}


def _build_answer_schema() -> Document:
    """Return the JSON Schema of the output with `-o json`, for success and for failure."""
    whole = {"type": ["integer", "null"]}
    action = _build_object_schema(
        {"command": _TEXT, "reason": _TEXT, "needs": _TEXTS, "person": {"type": "boolean"}},
        ["command", "reason"],
    )
    actions = {"type": "array", "items": action}
    good = _build_object_schema(
        {
            "success": {"const": True},
            "data": True,
            "next_actions": actions,
            "_meta": _build_object_schema(
                {"workflow": _OPTIONAL, "version": whole, "position": whole}
            ),
        }
    )
    error = _build_object_schema({"code": _TEXT, "message": _TEXT, "data": _OBJECT})
    bad = _build_object_schema(
        {"success": {"const": False}, "error": error, "next_actions": actions}, ["success", "error"]
    )
    return add_schema_uri_and_title("answer", "Answer", {"oneOf": [good, bad]})


#: Schema that does not describe the data of one event type → function that builds it, and its
#: purpose.
_WHOLES: dict[str, tuple[Callable[[], Document], str]] = {
    "event": (_build_event_schema, "a recorded event, as `wfctl events` prints it"),
    "state": (_build_state_schema, "the state, as in workflow-state.json"),
    "answer": (_build_answer_schema, "the answer of a command with -o json"),
    "plan": (_build_plan_schema, "the plan for `wfctl init`"),
}
