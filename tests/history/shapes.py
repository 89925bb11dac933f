"""Strategies for data and payloads of any shape that a JSON Schema allows."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from pydantic import ValidationError

from lifecycle.payload.models import Payload
from projections.files.event_models import find_event_model

Schema = dict[str, Any]

#: Fields that name or count other things. They keep their values, because the rules check them.
NAMES = frozenset(
    {"stage", "attempt", "amendment", "superseded_by", "dependency", "recovers", "number", "retry",
     "detected", "version", "kept", "invalidated_stages", "rewired", "rewire", "mode", "kind",
     "changes", "insert", "place", "diagnostic", "exit_code", "file", "unknown", "proof",
     "action", "signers", "kept_as"}
)  # fmt: skip
#: Control characters are excluded, because the tests of codec and terminal cover them.
TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12)
WHOLE = st.integers(-(2**63), 2**63 - 1)
#: Keys that readers look for in free-form objects.
KEYS = st.sampled_from(
    ["jobs", "started", "queued", "policy", "signer", "seconds", "output", "file", "commit",
     "path", "stage", "old", "new", "kind"]
)  # fmt: skip
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | WHOLE | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT | KEYS, inner, max_size=2),
    max_leaves=4,
)


def of_schema(schema: Schema | bool, defs: Schema) -> st.SearchStrategy[Any]:
    """Return a strategy for values that a schema allows."""
    if schema is True or not schema:
        return JSON
    assert isinstance(schema, dict)
    if "$ref" in schema:
        return of_schema(defs[schema["$ref"].rpartition("/")[2]], defs)
    if "anyOf" in schema:
        return st.one_of([of_schema(one, defs) for one in schema["anyOf"]])
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    return _of_type(schema, defs) if "type" in schema else JSON


def _of_type(schema: Schema, defs: Schema) -> st.SearchStrategy[Any]:
    match schema["type"]:
        case "object":
            return _object(schema, defs)
        case "array":
            return st.lists(of_schema(schema.get("items", True), defs), max_size=3)
        case "string":
            if "pattern" in schema:
                return st.from_regex(schema["pattern"], fullmatch=True)
            size = schema.get("minLength", 0)
            return TEXT.filter(lambda text: len(text) >= size)
        case "integer":
            return st.integers(schema.get("minimum", -(2**63)), schema.get("maximum", 2**63 - 1))
        case "number":
            return st.floats(-1e300, 1e300, allow_nan=False)
        case "boolean":
            return st.booleans()
    assert schema["type"] == "null"
    return st.none()


def _object(schema: Schema, defs: Schema) -> st.SearchStrategy[Any]:
    known = schema.get("properties", {})
    if not known:
        return st.dictionaries(
            TEXT | KEYS, of_schema(schema.get("additionalProperties", True), defs), max_size=3
        )
    needed = set(schema.get("required", []))
    fields = {name: of_schema(one, defs) for name, one in known.items()}
    return st.fixed_dictionaries(
        {name: found for name, found in fields.items() if name in needed},
        optional={name: found for name, found in fields.items() if name not in needed},
    )


def shaped_like(example: Payload) -> st.SearchStrategy[Payload]:
    """Return a strategy for payloads like an example, with random data in its free fields."""
    kind = find_event_model(example.type)
    said = example.as_json()
    schema = kind.model_json_schema()
    free = {**schema, "properties": {k: v for k, v in schema["properties"].items()
                                     if k not in NAMES}}  # fmt: skip
    free["required"] = [name for name in schema.get("required", []) if name not in NAMES]
    defs = schema.get("$defs", {})
    drawn = _object(free, defs) if free["properties"] else st.just({})
    about = {name: value for name, value in said.items() if name in NAMES}
    return drawn.map(lambda data: _payload(kind, {**about, **data})).filter(
        lambda payload: payload is not None
    )


def _payload(kind: type[Payload], data: dict[str, Any]) -> Any:
    """Return the payload, or None if a rule beyond the schema refuses it."""
    try:
        return kind.of(data)
    except ValidationError:
        return None
