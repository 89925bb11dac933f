"""Check the data of an event against the shape of its type."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from functools import cache, lru_cache
from typing import Any

from lifecycle.payload.data_shapes import SHAPES
from lifecycle.words.limits import (
    MAX_COUNT,
    MAX_ID,
    MAX_NUMBER,
    MAX_TASKS,
    MAX_TEXT,
    MAX_WEIGHT,
    MAX_WORDS,
    find_exceeded_limit,
)
from lifecycle.words.values import (
    DRIFT_PATTERN,
    ID_PATTERN,
    KEPT_PATTERN,
    MAX_PATH,
    RANGES_PATTERN,
    REPORT_PATTERN,
    STAGE_PATTERN,
)

Schema = Mapping[str, Any]
Check = Callable[[Any], str | None]


def _string_schema(pattern: str, most: int | None = None) -> Schema:
    """Return the JSON Schema of a string that matches a pattern."""
    limit = {} if most is None else {"maxLength": most}
    return {"type": "string", "pattern": pattern, **limit}


def _integer_schema(least: int, most: int) -> Schema:
    """Return the JSON Schema of an integer in a range."""
    return {"type": "integer", "minimum": least, "maximum": most}


#: The JSON Schema of each named kind of value.
VALUES: Mapping[str, Schema] = {
    "any": {},
    "text": {"type": "string"},
    "flag": {"type": "boolean"},
    "words": {"type": "string", "minLength": 1, "maxLength": MAX_WORDS},
    "stage": _string_schema(STAGE_PATTERN),
    "attempt": _string_schema("^att-[0-9]{4,}$", MAX_ID),
    "amendment": _string_schema("^amend-[1-9][0-9]*$", MAX_ID),
    "decision": _string_schema("^(plan|amend-[1-9][0-9]*)$", MAX_ID),
    "machine": _string_schema(ID_PATTERN),
    "loop": _string_schema(ID_PATTERN),
    "ranges": _string_schema(RANGES_PATTERN, MAX_TEXT),
    "number": _string_schema(r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$", MAX_TEXT),
    "kept": _string_schema(KEPT_PATTERN),
    "drift": _string_schema(DRIFT_PATTERN, MAX_PATH),
    "report": _string_schema(REPORT_PATTERN, MAX_PATH),
    "real": {"type": "number"},
    "whole": _integer_schema(-MAX_COUNT, MAX_COUNT),
    "tasks": _integer_schema(0, MAX_TASKS),
    "rounds": _integer_schema(1, 1_000),
    "round": _integer_schema(2, MAX_COUNT),
    "seconds": _integer_schema(1, 2_592_000),
    "retry": {"type": "integer", "minimum": 1, "exclusiveMaximum": MAX_COUNT},
    "weight": {"type": "number", "minimum": 0, "maximum": MAX_WEIGHT},
}


@cache
def _shape_rows() -> dict[str, list[str]]:
    """Return the field descriptions of each shape (event type or part of event data)."""
    rows = [row.split() for row in SHAPES.strip().replace("\n ", "").split("\n")]
    return {name: fields for name, *fields in rows}


def fill_defaults_and_find_misfit(type_: str, data: Any) -> str | None:
    """Return the reason why an event's data does not match its type, or None if it does.

    Default values of missing fields are added to ``data``.
    """
    try:
        is_known = type_ in _shape_rows() and "." in type_  # other names are parts of data
        return (_compile_shape(type_)(data) if is_known else None) or find_exceeded_limit(
            type_, data
        )
    except RecursionError:
        return "expected values that are not nested so deeply"


@cache
def _compile_shape(shape: str) -> Check:
    """Return a function that checks a value against a shape, such as ``text?`` or ``[stage]``."""
    if "|" in shape:
        return _make_alternatives_check([_compile_shape(one) for one in shape.split("|")])
    if shape.endswith("?"):
        return _make_null_check(_compile_shape(shape[:-1]))
    inner = shape[1:-1]
    match shape[0]:
        case "(":
            return _make_choice_check(inner.split(","))
        case "[":
            return _make_array_check(_compile_shape(inner))
        case "{":
            keys, _, values = inner.rpartition(">")
            return _make_mapping_check(_compile_shape(keys or "any"), _compile_shape(values))
        case _:
            return (
                _compile_value(VALUES[shape])
                if shape in VALUES
                else _make_object_check(_shape_rows()[shape])
            )


def _compile_value(schema: Schema) -> Check:
    """Return a function that checks a simple value against its JSON Schema."""
    kind = schema.get("type")
    if kind == "string":
        return _make_text_check(schema)
    if kind in ("integer", "number"):
        return _make_number_check(schema)
    return _check_boolean if kind == "boolean" else _accept_anything


def _accept_anything(value: Any) -> str | None:
    """Return None: every value is valid."""
    return None


def _make_null_check(one: Check) -> Check:
    """Return a check that accepts null and every value that the given check accepts."""
    return lambda value: None if value is None else one(value)


def _make_alternatives_check(checks: list[Check]) -> Check:
    """Return a check that accepts a value if at least one of the given checks accepts it."""

    def check(value: Any) -> str | None:
        found = None
        for one in checks:
            found = one(value)
            if found is None:
                return None
        return found

    return check


def _make_choice_check(values: list[str]) -> Check:
    """Return a check that accepts only the listed strings."""

    def check(value: Any) -> str | None:
        known = isinstance(value, str) and value in values
        return None if known else f"expected one of {', '.join(values)}, {_format_found(value)}"

    return check


def _format_found(value: Any) -> str:
    return f"found {value!r:.80}"


def _make_text_check(schema: Schema) -> Check:
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    longest = math.inf if most is None else most
    is_free, pattern = "pattern" not in schema, re.compile(schema.get("pattern", ""), re.ASCII)

    @lru_cache(maxsize=1024)  # ids and digests of a log repeat
    def matches(value: str) -> bool:
        # A dollar sign in a regular expression also matches before a final newline, which is not
        # allowed.
        return pattern.search(value) is not None and not value.endswith("\n")

    # This function checks most fields of every event that is read. Valid values take the shortest
    # path through it.
    def check(value: Any) -> str | None:
        if isinstance(value, str) and least <= len(value) <= longest:
            if is_free or matches(value):
                return None
            return f"expected text that matches {schema['pattern']}, {_format_found(value)}"
        if not isinstance(value, str):
            return f"expected text, {_format_found(value)}"
        return f"expected text of {least} to {most or '…'} letters, found {len(value)}"

    return check


def _make_number_check(schema: Schema) -> Check:
    """Return a check for a finite number within the limits of a JSON Schema."""
    is_whole = schema["type"] == "integer"
    types, name = ((int,), "whole number") if is_whole else ((int, float), "number")
    least = schema.get("minimum", -MAX_NUMBER)
    most = schema.get("maximum", MAX_NUMBER)
    below = schema.get("exclusiveMaximum", math.inf)

    def check(value: Any) -> str | None:
        if type(value) in types and least <= value <= most and value < below:
            return None
        last = f"{below} (excluded)" if most > below else f"{most}"
        return f"expected a {name} from {least} to {last}, {_format_found(value)}"

    return check


def _check_boolean(value: Any) -> str | None:
    return None if isinstance(value, bool) else f"expected true or false, {_format_found(value)}"


def _make_array_check(item: Check) -> Check:
    def check(value: Any) -> str | None:
        if not isinstance(value, list):
            return f"expected a list, {_format_found(value)}"
        if item is _accept_anything:
            return None
        for place, one in enumerate(value):
            why = item(one)
            if why is not None:
                return f"{place}: {why}"
        return None

    return check


def _make_object_check(rows: list[str]) -> Check:
    pairs = [row.partition(":") for row in rows]
    said = {name: shape.partition("=") for name, _, shape in pairs}
    fields = {name: _compile_shape(shape) for name, (shape, _, _) in said.items()}
    names, checks = fields.keys(), tuple(fields.items())
    given = {name: default for name, (_, is_optional, default) in said.items() if is_optional}

    # This function checks every event that is read. A plain loop takes half the time of a
    # generator.
    def check(value: Any) -> str | None:
        if not isinstance(value, dict):
            return f"expected an object, {_format_found(value)}"
        if (
            value.keys() != names
            and (why := _fill_defaults_and_find_problem(value, names, given)) is not None
        ):
            return why
        for name, one in checks:
            why = one(value[name])
            if why is not None:
                return f"{name}: {why}"
        return None

    return check


def _fill_defaults_and_find_problem(
    value: dict[str, Any], names: AbstractSet[str], given: Mapping[str, str]
) -> str | None:
    """Add default values for missing optional fields.

    Return the first problem (an unknown field or a missing required field), or None.
    """
    unknown = value.keys() - names
    if unknown:
        return f"expected no field {min(unknown)!r:.80}"
    for name in names - value.keys():
        if name not in given:
            return f"{name}: this field is missing"
        value[name] = json.loads(given[name])
    return None


def _make_mapping_check(keys: Check, values: Check) -> Check:
    def check(value: Any) -> str | None:
        if not isinstance(value, dict):
            return f"expected an object, {_format_found(value)}"
        if keys is _accept_anything and values is _accept_anything:
            return None
        for key, one in value.items():
            why = keys(key) or values(one)
            if why is not None:
                return f"{key!r:.80}: {why}"
        return None

    return check
