"""Does the data of an event have the shape of its type? Asked of everything that is read.

The models of `lifecycle.payload.models` say what may be written, and take longer to load than most
commands to run. What their JSON Schemas say is kept in `lifecycle.payload.shapes`, which a test
holds equal to them, and is asked here. No limit is declared here: a limit of a field is one of its
model, and a keyword of a schema that this does not know is refused.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cache, lru_cache
from typing import Any

from lifecycle.payload.shapes import SHAPES
from lifecycle.words.values import MAX_NUMBER, excess

Schema = Mapping[str, Any]
Check = Callable[[Any], str | None]
"""A value → what is wrong with it, None where nothing is."""


@cache
def _shapes() -> dict[str, Schema]:
    found: dict[str, Schema] = json.loads(SHAPES)
    return found


def misfit(type_: str, data: Any) -> str | None:
    """Return what of an event's data is not as its type has it, None where all is.

    Fields that are not there get what they are by default.
    """
    try:
        return _check_of(type_)(data) or excess(type_, data)
    except RecursionError:
        return "expected values that are not nested so deeply"


@cache
def _check_of(type_: str) -> Check:
    shape = _shapes().get(type_)
    return _anything if shape is None else _compiled(shape, shape.get("$defs", {}))


#: All that a schema may ask. A new keyword needs its check first.
_KEYWORDS = {
    *("$defs", "$ref", "anyOf", "const", "default", "enum", "type"),
    *("additionalProperties", "patternProperties", "properties", "propertyNames", "required"),
    *("exclusiveMaximum", "items", "maximum", "maxLength", "minimum", "minLength", "pattern"),
}


def _compiled(schema: Schema, defs: Schema) -> Check:
    if not schema.keys() <= _KEYWORDS:
        raise ValueError(f"no check is known for {sorted(schema.keys() - _KEYWORDS)}")
    if "$ref" in schema:
        return _compiled(defs[str(schema["$ref"]).rpartition("/")[2]], defs)
    if "anyOf" in schema:
        others = [one for one in schema["anyOf"] if one != {"type": "null"}]
        found = _any_of([_compiled(one, defs) for one in others])
        return found if len(others) == len(schema["anyOf"]) else _or_nothing(found)
    if "enum" in schema or "const" in schema:
        return _one_of(schema["enum"] if "enum" in schema else [schema["const"]])
    return _of_type(schema, defs)


def _of_type(schema: Schema, defs: Schema) -> Check:
    match schema.get("type"):
        case "object":
            return _object(schema, defs)
        case "array":
            return _array(_compiled(schema.get("items", {}), defs))
        case "string":
            return _text(schema)
        case "integer":
            return _number(schema, (int,))
        case "number":
            return _number(schema, (int, float))
        case "boolean":
            return _boolean
        case "null":
            return _null
        case _:
            return _anything


def _anything(value: Any) -> str | None:
    return None


def _or_nothing(one: Check) -> Check:
    return lambda value: None if value is None else one(value)


def _any_of(checks: list[Check]) -> Check:
    if len(checks) == 1:
        return checks[0]

    def check(value: Any) -> str | None:
        found = None
        for one in checks:
            found = one(value)
            if found is None:
                return None
        return found

    return check


def _one_of(values: list[Any]) -> Check:
    def check(value: Any) -> str | None:
        known = isinstance(value, str) and value in values
        return None if known else f"expected one of {', '.join(map(str, values))}, {_found(value)}"

    return check


def _found(value: Any) -> str:
    return f"found {value!r:.80}"


def _text(schema: Schema) -> Check:
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    pattern = re.compile(schema["pattern"], re.ASCII) if "pattern" in schema else None
    longest = math.inf if most is None else most
    matches = None if pattern is None else _matching(pattern)

    # Asked of most fields of every event that is read: what is right is known in one look.
    def check(value: Any) -> str | None:
        if isinstance(value, str) and least <= len(value) <= longest:
            if matches is None or matches(value):
                return None
            return f"expected text that matches {schema['pattern']}, {_found(value)}"
        if not isinstance(value, str):
            return f"expected text, {_found(value)}"
        return f"expected text of {least} to {most or '…'} letters, found {len(value)}"

    return check


def _matching(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    """Return whether a text matches; the ids and digests of a log come again and again."""

    @lru_cache(maxsize=256)
    def matches(value: str) -> bool:
        # A dollar sign would let a newline through at the end.
        return pattern.search(value) is not None and not value.endswith("\n")

    return matches


def _number(schema: Schema, types: tuple[type, ...]) -> Check:
    """A finite number of these types, within the bounds of its schema."""
    least = schema.get("minimum", -MAX_NUMBER)
    most = schema.get("maximum", MAX_NUMBER)
    below = schema.get("exclusiveMaximum", math.inf)
    name = "number" if float in types else "whole number"

    def check(value: Any) -> str | None:
        if type(value) in types and least <= value <= most and value < below:
            return None
        last = f"{below} (excluded)" if most > below else f"{most}"
        return f"expected a {name} from {least} to {last}, {_found(value)}"

    return check


def _boolean(value: Any) -> str | None:
    return None if isinstance(value, bool) else f"expected true or false, {_found(value)}"


def _null(value: Any) -> str | None:
    return None if value is None else f"expected null, {_found(value)}"


def _array(item: Check) -> Check:
    def check(value: Any) -> str | None:
        if not isinstance(value, list):
            return f"expected a list, {_found(value)}"
        if item is _anything:
            return None
        return next((f"{n}: {why}" for n, one in enumerate(value) if (why := item(one))), None)

    return check


def _object(schema: Schema, defs: Schema) -> Check:
    if "properties" not in schema:
        return _mapping(schema, defs)
    fields = {name: _compiled(one, defs) for name, one in schema["properties"].items()}
    names, checks = fields.keys(), tuple(fields.items())
    given = dict(_defaults(schema))

    # Asked of every event that is read: a plain loop takes half the time of a generator.
    def check(value: Any) -> str | None:
        if not isinstance(value, dict):
            return f"expected an object, {_found(value)}"
        if value.keys() != names and (why := _completed(value, names, given)) is not None:
            return why
        for name, one in checks:
            why = one(value[name])
            if why is not None:
                return f"{name}: {why}"
        return None

    return check


def _completed(
    value: dict[str, Any], names: AbstractSet[str], given: Mapping[str, str]
) -> str | None:
    """Give an object the fields that it may leave out; return why it is none all the same."""
    unknown = value.keys() - names
    if unknown:
        return f"expected no field {min(unknown)!r:.80}"
    for name in names - value.keys():
        if name not in given:
            return f"{name}: this field is missing"
        value[name] = json.loads(given[name])
    return None


#: What a default factory makes stands in no schema.
_EMPTY = {"array": "[]", "object": "{}"}


def _defaults(schema: Schema) -> Iterator[tuple[str, str]]:
    """Yield each field that may be left out with its default as JSON: no two get the same list."""
    needed = set(schema.get("required", ()))
    for name, one in schema["properties"].items():
        if "default" in one:
            yield name, json.dumps(one["default"])
        elif name not in needed and one.get("type") in _EMPTY:
            yield name, _EMPTY[one["type"]]


def _mapping(schema: Schema, defs: Schema) -> Check:
    """An object of which every key and every value has one shape."""
    keys, values = _of_entries(schema, defs)

    def check(value: Any) -> str | None:
        if not isinstance(value, dict):
            return f"expected an object, {_found(value)}"
        if keys is _anything and values is _anything:
            return None
        wrong = ((key, keys(key) or values(one)) for key, one in value.items())
        return next((f"{key!r:.80}: {why}" for key, why in wrong if why is not None), None)

    return check


def _of_entries(schema: Schema, defs: Schema) -> tuple[Check, Check]:
    for pattern, one in schema.get("patternProperties", {}).items():
        return _text({"pattern": pattern}), _compiled(one, defs)
    keys = _text(schema["propertyNames"]) if "propertyNames" in schema else _anything
    others = schema.get("additionalProperties")
    return keys, _compiled(others, defs) if isinstance(others, dict) else _anything
