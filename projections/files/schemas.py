"""JSON Schemas (draft 2020-12) of what wfctl writes: each event, the state, the JSON answers.

``event`` is a recorded event as `wfctl events` and `wfctl export events` write it; its data is that
of its type. Names and fields may be added in any version: readers must let unknown ones pass, and
the schemas of the state and the answers do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lifecycle.payload.event_types import VERSIONS
from lifecycle.rules.decide import model_of
from lifecycle.state.status import Status
from lifecycle.words.document import STAGE_FIELDS, WORKFLOW_FIELDS
from projections.words.text import schema_uri

DIALECT = "https://json-schema.org/draft/2020-12/schema"
Document = dict[str, Any]

_TEXT: Document = {"type": "string"}
_OBJECT: Document = {"type": "object"}
_TEXTS: Document = {"type": "array", "items": _TEXT}
_COUNT: Document = {"type": "integer", "minimum": 0}
_OPTIONAL: Document = {"type": ["string", "null"]}
_HASH: Document = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
#: UTC with microseconds.
_MOMENT: Document = {
    "type": "string",
    "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z$",
}


def schemas() -> dict[str, Document]:
    """Return every schema by its name: event types, ``event``, ``state``, ``answer``, ``plan`` …"""
    every = {name: schema(name) for name in (*VERSIONS, *_WHOLES)}
    return {name: found for name, found in every.items() if found is not None}


def schema(name: str) -> Document | None:
    """Return one of them; None for an unknown name."""
    if name in VERSIONS:
        body = model_of(name).model_json_schema()
        return _named(name, body.pop("title"), body)
    return _WHOLES[name][0]() if name in _WHOLES else None


def about(name: str, schema: Document) -> str:
    """Return in a line of what a schema is."""
    told = _WHOLES[name][1] if name in _WHOLES else schema.get("description")
    if told is None:
        of, _, what = name.partition(".")
        told = f"the state of a {of}" if what == "state" else f"the data of {what} of a {of}"
    return str(told).split(". ")[0].split("\n")[0].rstrip(".").replace("``", "`")


def _named(name: str, title: str, body: Document) -> Document:
    head = {"$schema": DIALECT, "$id": schema_uri(name, VERSIONS.get(name, 1)), "title": title}
    return {**head, **body}


def _fields(properties: Document, required: list[str] | None = None) -> Document:
    needed = list(properties) if required is None else required
    return {"type": "object", "required": needed, "properties": properties}


def _event() -> Document:
    actor = _fields({"kind": {"enum": ["user", "agent", "reconciler", "runner", "import"]},
                     "name": _TEXT})  # fmt: skip
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
    body = {**_fields(properties), "additionalProperties": False}
    return _named("event", "RecordedEvent", {**body, "allOf": [_data_of(t) for t in VERSIONS]})


def _data_of(type_: str) -> Document:
    """Return what says that an event of a type, in its newest version, has that type's data."""
    version = VERSIONS[type_]
    kind = {"type": {"const": type_}, "schema_version": {"const": version}}
    return {
        "if": {"properties": kind},
        "then": {"properties": {"data": {"$ref": schema_uri(type_, version)}}},
    }


def _state() -> Document:
    known = {
        **dict.fromkeys(WORKFLOW_FIELDS, _OPTIONAL),
        "workflow_id": _TEXT,
        "version": _COUNT,
        "amendments": {"type": "array", "items": _OBJECT},
        "session_config": _OBJECT,
        "default_backend": _TEXT,
        "backend_profiles": {"type": "object", "additionalProperties": _OBJECT},
        "stages": {"type": "array", "items": _stage()},
    }
    return _named("state", "WorkflowState", _fields(known, ["workflow_id", "stages"]))


def _stage() -> Document:
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
    return _fields(known, ["id", "name", "status"])


def _plan() -> Document:
    """Return the schema of a plan: what `wfctl init` takes, and what each field is for."""
    from lifecycle.plan.fields import WORDS_OF_STAGE, WORDS_OF_WORKFLOW

    stage = _described(WORDS_OF_STAGE, _stage()["properties"], ["id", "name"])
    known = {**_state()["properties"], "purpose": _TEXT, "stages": {"type": "array", "minItems": 1}}
    whole = _described(WORDS_OF_WORKFLOW, known, ["workflow_id", "stages"])
    whole["properties"]["stages"]["items"] = stage
    return _named("plan", "Plan", whole)


def _definition() -> Document:
    """Return the schema of the definition of a machine, as `wfctl machine init` takes it."""
    from lifecycle.machines.definition import Definition

    body = Definition.model_json_schema(by_alias=True)
    return _named("definition", body.pop("title"), body)


def _described(words: dict[str, str], known: Document, needed: list[str]) -> Document:
    """Return an object of these fields alone, and of those that begin with x-."""
    properties = {
        name: {**known.get(name, {}), "description": text} for name, text in words.items()
    }
    closed = {"patternProperties": {"^x-": True}, "additionalProperties": False}
    return {**_fields(properties, needed), **closed}


def _answer() -> Document:
    """Return the schema of what `-o json` prints: a success or a failure."""
    whole = {"type": ["integer", "null"]}
    action = _fields(
        {"command": _TEXT, "reason": _TEXT, "needs": _TEXTS, "person": {"type": "boolean"}},
        ["command", "reason"],
    )
    actions = {"type": "array", "items": action}
    good = _fields(
        {
            "success": {"const": True},
            "data": True,
            "next_actions": actions,
            "_meta": _fields({"workflow": _OPTIONAL, "version": whole, "position": whole}),
        }
    )
    error = _fields({"code": _TEXT, "message": _TEXT, "data": _OBJECT})
    bad = _fields(
        {"success": {"const": False}, "error": error, "next_actions": actions}, ["success", "error"]
    )
    return _named("answer", "Answer", {"oneOf": [good, bad]})


#: What is no event's data: what makes it, and what it is for.
_WHOLES: dict[str, tuple[Callable[[], Document], str]] = {
    "event": (_event, "a recorded event, as `wfctl events` prints it"),
    "state": (_state, "the state, as workflow-state.json holds it"),
    "answer": (_answer, "the answer of a command with -o json"),
    "plan": (_plan, "what `wfctl init` takes"),
    "definition": (_definition, "what `wfctl machine init --definition` takes"),
}
