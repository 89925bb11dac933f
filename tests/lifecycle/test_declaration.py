"""The pydantic model of an event and the quick check without pydantic accept the same data."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from lifecycle.payload.check_data import fill_defaults_and_find_misfit
from lifecycle.words.limits import MAX_ID, MAX_TASKS, MAX_TEXT
from lifecycle.words.values import DRIFT_PATTERN, MAX_PATH, REPORT_PATTERN
from tests.golden.events_on_file import EVERY, examples

Data = dict[str, Any]
Path = tuple[str | int, ...]

SHAPE: dict[str, Any] = {type_: model.model_json_schema() for type_, model in EVERY.items()}
#: For each event type: example data of the current version, with all fields.
SEEDS = {one.type: one.data for one in examples() if one.version == EVERY[one.type].schema_version}


def _scattered(length: int) -> str:
    """Return a list of task numbers, such as "0,2,4", of at most the given length."""
    text = ",".join(str(2 * n) for n in range(min(length // 2 + 1, MAX_TASKS // 2)))
    return text[:length].rstrip(",")


#: For each pattern that matches strings of any length: a function that returns a match of a given
#: length.
LONG: Mapping[str, Callable[[int], str]] = {
    r"^att-[0-9]{4,}$": lambda length: "att-" + "1" * (length - 4),
    r"^amend-[1-9][0-9]*$": lambda length: "amend-" + "1" * (length - 6),
    r"^(plan|amend-[1-9][0-9]*)$": lambda length: "amend-" + "1" * (length - 6),
    r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$": lambda length: "1" * length,
    r"^$|^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$": _scattered,
    REPORT_PATTERN: lambda length: "a" * (length - 3) + ".md",
    DRIFT_PATTERN: lambda length: ".wfctl/drift/" + "a" * (length - 13),
}
#: Unusual strings: some break a pattern, and others are as long as a field allows.
ODD = ["", " ", "a\n", "a" * 64, "a" * 65, "a" * 128, "a" * 129, "a/b.md", "/a.md", "a/../b.md",
       "a/.b.md", ".md", "a.MD", "a.sh", ".wfctl/drift/.", ".wfctl/drift/..", ".wfctl/drift/...a",
       ".wfctl/drift/a/b", "a\x07.md", "a\u2028.md", "0-", "1,", "-1", "stage-1", "x.v1",
       "x.v0"]  # fmt: skip
WRONG: list[Any] = [None, True, 0, 1, -1, 0.5, "", "x", [], {}, [None], {"a": None}]


def accepted_by_model(type_: str, data: Data) -> bool:
    """Return whether the model of the type accepts the data."""
    try:
        EVERY[type_].of(copy.deepcopy(data))
    except ValidationError:
        return False
    return True


def leaves(value: Any, schema: Any, defs: Data, at: Path = ()) -> Iterator[tuple[Path, Data]]:
    """Yield the path of each value inside the data, with the schema of the value."""
    if "$ref" in schema:
        schema = defs[schema["$ref"].rpartition("/")[2]]
    for one in schema.get("anyOf", ()):
        yield from leaves(value, one, defs, at)
    yield at, schema
    if isinstance(value, dict):
        named = schema.get("properties", {})
        rest = next(iter(schema.get("patternProperties", {}).values()), None)
        rest = rest or schema.get("additionalProperties")
        for key, inner in value.items():
            of = named.get(key, rest)
            if isinstance(of, dict):
                yield from leaves(inner, of, defs, (*at, key))
    elif isinstance(value, list) and value and isinstance(schema.get("items"), dict):
        yield from leaves(value[0], schema["items"], defs, (*at, 0))


def values_of(schema: Data) -> Iterator[Any]:
    """Yield test values for a field: valid ones, ones at and beyond its limits, and wrong types."""
    yield from WRONG
    for limit in ("minimum", "maximum", "exclusiveMaximum"):
        if limit in schema:
            yield from (schema[limit] - 1, schema[limit], schema[limit] + 1)
    if schema.get("type") in ("integer", "number"):
        yield from (2**53 - 1, 2**53, -(2**53), 2**63, 1e300, 1.0)
    if schema.get("type") == "string":
        yield from ODD
        for limit in ("minLength", "maxLength"):
            yield from _around(schema.get(limit), schema.get("pattern"))


def _around(limit: int | None, pattern: str | None) -> Iterator[str]:
    make = LONG.get(pattern or "", "a".__mul__)
    for length in () if limit is None else (limit - 1, limit, limit + 1):
        yield make(max(length, 0))


def replaced(data: Data, at: Path, value: Any) -> Any:
    """Return a copy of the data with another value at the path."""
    if not at:
        return value
    found = copy.deepcopy(data)
    inner: Any = found
    for step in at[:-1]:
        inner = inner[step]
    inner[at[-1]] = value
    return found


def cases(type_: str) -> Iterator[Data]:
    """Yield the example data of an event type, and many copies with one change each."""
    seed, shape = SEEDS[type_], SHAPE[type_]
    yield seed
    yield {**seed, "unknown": 1}
    yield from ({k: v for k, v in seed.items() if k != left} for left in seed)
    for at, schema in leaves(seed, shape, shape.get("$defs", {})):
        yield from (replaced(seed, at, value) for value in values_of(schema) if at)
        if "patternProperties" in schema or "propertyNames" in schema:
            inner = next(iter(_at(seed, at).values()), 1)
            yield from (replaced(seed, at, {key: inner}) for key in ODD)


def _at(data: Data, at: Path) -> Any:
    found: Any = data
    for step in at:
        found = found[step]
    return found


@pytest.mark.parametrize("type_", sorted(EVERY))
def test_model_and_quick_check_accept_the_same_data(type_: str) -> None:
    """For each event type, both checks agree on valid values, extreme values and wrong types."""
    asked = 0
    for data in cases(type_):
        why = fill_defaults_and_find_misfit(type_, copy.deepcopy(data))
        assert accepted_by_model(type_, data) == (why is None), (why, str(data)[:500])
        asked += 1
    assert asked > 10


def test_every_open_pattern_has_a_length_limit() -> None:
    """Each field whose pattern matches strings of any length also has a maximum length."""
    found = set(_strings(SHAPE))
    unbounded = {p for p, most in found if p is not None and re.search(r"[*+]|,\}", p)}
    assert unbounded == set(LONG)
    assert {most for p, most in found if p in LONG} == {MAX_ID, MAX_TEXT, MAX_PATH}


def _strings(schema: Any) -> Iterator[tuple[str | None, int | None]]:
    if isinstance(schema, list):
        for one in schema:
            yield from _strings(one)
    elif isinstance(schema, dict):
        if schema.get("type") == "string":
            yield schema.get("pattern"), schema.get("maxLength")
        for one in schema.values():
            yield from _strings(one)
